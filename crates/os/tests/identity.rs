//! Identities of processes and whether they live: under odd names, threads, namespaces, and without `/proc`.

mod common;

use std::sync::atomic::Ordering;

use common::{Child, Directory, await_word, shared_page, sleep, sleep_for_ever, tell_identity};
use heapwright_os::{Identity, Life, life, pid_namespace};

const UNUSED: u32 = (1 << 22) + 1;

/// What a child returns that was not allowed what its test needs.
fn skipped(test: &str) {
    eprintln!("skipped {test}: needs the right to make namespaces");
}

#[test]
fn this_process_lives_and_its_number_is_unique() {
    let me = Identity::mine();
    assert_eq!((me.pid, me.birth != 0), (std::process::id(), true));
    assert_eq!(Identity::mine(), me);
    assert_eq!(life(me), Life::Alive);
    assert_eq!(life(Identity { birth: 0, ..me }), Life::Alive);
    assert_eq!(life(Identity { birth: me.birth ^ 1, ..me }), Life::Dead);
}

#[test]
fn nonsense_is_dead() {
    for pid in [0, UNUSED, i32::MAX as u32, 1 << 31, u32::MAX] {
        for birth in [0, 1] {
            assert_eq!(life(Identity { pid, birth }), Life::Dead, "{pid}");
        }
    }
}

#[test]
fn others_are_judged_like_oneself() {
    let parent = Identity { pid: std::os::unix::process::parent_id(), birth: 0 };
    assert_eq!(life(parent), Life::Alive);
    assert_eq!(life(Identity { birth: Identity::mine().birth, ..parent }), Life::Dead);
}

#[test]
fn words_hold_identities() {
    let identity = Identity { pid: 0x7fff_ffff, birth: 0xdead_beef };
    assert_eq!(identity.word(), 0xdead_beef_7fff_ffff);
    assert_eq!(Identity::from_word(identity.word() | 1 << 31), identity);
}

#[test]
fn a_program_may_be_called_anything() {
    let page = shared_page();
    let child = Child::run(|| {
        // SAFETY: the name is a C string.
        expect!(unsafe { libc::prctl(libc::PR_SET_NAME, c") Z 1 (2) 3) Z".as_ptr()) } == 0);
        tell_identity(&page.words[0]);
        sleep_for_ever()
    });
    let identity = Identity::from_word(await_word(&page.words[0]));
    assert_ne!(identity.birth, 0);
    assert_eq!(life(identity), Life::Alive);
    child.signal(libc::SIGSTOP);
    assert_eq!(life(identity), Life::Alive);
    child.kill();
    assert_eq!(life(identity), Life::Dead);
}

/// Such a process shows as a zombie, but its other threads run on.
#[test]
fn a_process_lives_as_long_as_any_of_its_threads() {
    extern "C" fn run_on(_: *mut libc::c_void) -> *mut libc::c_void {
        sleep_for_ever()
    }
    let page = shared_page();
    let child = Child::run(|| {
        tell_identity(&page.words[0]);
        // SAFETY: the thread uses nothing of this one, which ends alone, by the bare system call.
        unsafe {
            let mut thread = std::mem::zeroed();
            expect!(libc::pthread_create(&mut thread, std::ptr::null(), run_on, std::ptr::null_mut()) == 0);
            libc::syscall(libc::SYS_exit, 0);
        }
        Err(line!())
    });
    let identity = Identity::from_word(await_word(&page.words[0]));
    let stat = format!("/proc/{}/stat", child.pid);
    while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
        sleep(1);
    }
    assert_eq!(life(identity), Life::Alive);
    child.kill();
    assert_eq!(life(identity), Life::Dead);
}

#[test]
fn namespaces_are_told_apart() {
    let page = shared_page();
    let here = pid_namespace().unwrap();
    let child = Child::run(|| {
        expect!(pid_namespace() == Some(here));
        // SAFETY: the child is alone.
        if unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
            page.words[0].store(1, Ordering::Relaxed);
            return Ok(());
        }
        let grandchild = Child::run(|| {
            expect!(pid_namespace().is_some_and(|there| there != here));
            // This /proc numbers processes otherwise, so that it must not be asked.
            expect!(Identity::mine() == Identity { pid: 1, birth: 0 });
            expect!(life(Identity::mine()) == Life::Alive);
            expect!(life(Identity { pid: 1, birth: 5 }) == Life::Alive);
            expect!(life(Identity { pid: 2, birth: 0 }) == Life::Dead);
            Ok(())
        });
        expect!(grandchild.wait());
        Ok(())
    });
    assert!(child.wait());
    if page.words[0].load(Ordering::Relaxed) == 1 {
        skipped("namespaces_are_told_apart");
    }
}

#[test]
fn without_proc_only_the_number_counts() {
    let (page, directory) = (shared_page(), Directory::new("without-proc"));
    let (root, parent) = (directory.c_path(), Identity::mine());
    let child = Child::run(|| {
        // SAFETY: the path is a C string.
        if unsafe { libc::chroot(root.as_ptr()) } != 0 {
            page.words[0].store(1, Ordering::Relaxed);
            return Ok(());
        }
        expect!(pid_namespace().is_none());
        expect!(Identity::mine() == Identity { pid: heapwright_os::process_id(), birth: 0 });
        expect!(life(parent) == Life::Alive);
        expect!(life(Identity { birth: parent.birth ^ 1, ..parent }) == Life::Alive);
        expect!(life(Identity { pid: UNUSED, birth: 0 }) == Life::Dead);
        tell_identity(&page.words[1]);
        sleep_for_ever()
    });
    let identity = Identity { pid: child.pid as u32, birth: 0 };
    if page.words[0].load(Ordering::Relaxed) == 0 && await_word(&page.words[1]) != 0 {
        assert_eq!(Identity::from_word(page.words[1].load(Ordering::Relaxed)), identity);
        assert_eq!(life(identity), Life::Alive);
        child.kill();
        assert_eq!(life(identity), Life::Dead);
    } else {
        skipped("without_proc_only_the_number_counts");
    }
}
