//! Identities of processes and whether they live: under odd names, threads, namespaces, and without `/proc`.

mod common;

use std::sync::atomic::Ordering;

use common::{Child, Directory, await_word, shared_page, sleep, sleep_for_ever, tell_identity};
use heapwright_os::{Announcement, Deaths, Identity, Life, Numbers, Segment, life, pid_namespace, unlink};

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
    assert_eq!(life(Identity { birth: 0, ..me }), Life::Dead);
    assert_eq!(life(Identity { birth: me.birth ^ 8, ..me }), Life::Dead);
    assert_eq!(Deaths::Unknown.life_of(Identity { birth: me.birth ^ 8, ..me }), Life::Alive);
}

#[test]
fn nonsense_is_dead() {
    for pid in [0, UNUSED, i32::MAX as u32, 1 << 31, u32::MAX] {
        for birth in [0, 1] {
            assert_eq!(life(Identity { pid, birth }), Life::Dead, "{pid}");
            assert_eq!(Deaths::Unknown.life_of(Identity { pid, birth: 0 }), Life::Dead, "{pid}");
        }
    }
}

#[test]
fn others_are_judged_like_oneself() {
    let (page, me) = (shared_page(), Identity::mine());
    let child = Child::run(|| {
        tell_identity(&page.words[0]);
        expect!(life(me) == Life::Alive);
        sleep_for_ever()
    });
    let identity = Identity::from_word(await_word(&page.words[0]));
    assert_eq!((identity.pid, life(identity)), (child.pid as u32, Life::Alive));
    assert_eq!(life(Identity { birth: me.birth, ..identity }), Life::Dead);
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
            expect!(Identity::mine().pid == 1);
            expect!(life(Identity::mine()) == Life::Alive);
            expect!(life(Identity { pid: 1, birth: 8 }) == Life::Alive);
            expect!(life(Identity { pid: 2, birth: 8 }) == Life::Dead);
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
    let (root, parent, here) = (directory.c_path(), Identity::mine(), pid_namespace());
    let child = Child::run(|| {
        // SAFETY: the path is a C string.
        if unsafe { libc::chroot(root.as_ptr()) } != 0 {
            page.words[0].store(1, Ordering::Relaxed);
            return Ok(());
        }
        // The system may tell the namespace nevertheless.
        expect!(pid_namespace().is_none_or(|there| Some(there) == here));
        expect!(Identity::mine().pid == heapwright_os::process_id());
        expect!(life(parent) == Life::Alive);
        expect!(life(Identity { pid: UNUSED, birth: 2 }) == Life::Dead);
        tell_identity(&page.words[1]);
        sleep_for_ever()
    });
    let begun = std::time::Instant::now();
    while page.words[0].load(Ordering::Relaxed) == 0 && page.words[1].load(Ordering::Acquire) == 0 {
        assert!(begun.elapsed() < common::AMPLE);
        sleep(1);
    }
    if page.words[0].load(Ordering::Relaxed) == 0 {
        let identity = Identity::from_word(page.words[1].load(Ordering::Relaxed));
        assert_eq!(identity.pid, child.pid as u32);
        assert_eq!(life(identity), Life::Alive);
        child.kill();
        assert_eq!(life(identity), Life::Dead);
    } else {
        skipped("without_proc_only_the_number_counts");
    }
}

/// A number that is used again within the same tick of the clock that start times are measured by.
#[test]
fn a_number_used_again_at_once_is_another_process() {
    const LAST: &str = "/proc/sys/kernel/ns_last_pid";
    let started = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(") ").next().unwrap().split(' ').nth(19).unwrap().to_owned()
    };
    let page = shared_page();
    let idle = || {
        page.words[0].store(0, Ordering::Relaxed);
        let child = Child::run(|| {
            tell_identity(&page.words[0]);
            sleep_for_ever()
        });
        (Identity::from_word(await_word(&page.words[0])), started(child.pid), child)
    };
    for _ in 0..300 {
        let (first, first_started, child) = idle();
        child.kill();
        assert!(!child.wait());
        if std::fs::write(LAST, (first.pid - 1).to_string()).is_err() {
            return skipped("a_number_used_again_at_once_is_another_process");
        }
        let (second, second_started, _child) = idle();
        if first.pid == second.pid && first_started == second_started {
            assert_ne!(first, second);
            assert_eq!((life(first), life(second)), (Life::Dead, Life::Alive));
            return;
        }
    }
    // Identities are told only when no other process can get the same start time, or tests of others disturb.
    println!("no number was used again within a tick");
}

/// Makes `pidfd_open` fail in the calling child, as in kernels and sandboxes without it; whether that is allowed.
fn refuse_pidfds() -> bool {
    let load = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, load),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_pidfd_open as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program is a local variable and so are its steps.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    }
}

/// Where a process is known by its start time only, no other process can still get the same one.
#[test]
fn a_start_time_is_told_when_its_tick_is_over() {
    let (page, me) = (shared_page(), Identity::mine());
    let child = Child::run(|| {
        if !refuse_pidfds() {
            page.words[1].store(u64::MAX, Ordering::Release);
            return Ok(());
        }
        let born = Child::run(|| {
            tell_identity(&page.words[0]);
            let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the time is written to a local variable.
            unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) };
            page.words[1].store(now.tv_sec as u64 * 100 + now.tv_nsec as u64 / 10_000_000, Ordering::Release);
            expect!(life(me) == Life::Alive);
            sleep_for_ever()
        });
        await_word(&page.words[2]);
        let identity = Identity::from_word(page.words[0].load(Ordering::Acquire));
        expect!(identity.birth.is_multiple_of(2) && life(identity) == Life::Alive);
        expect!(life(Identity { birth: identity.birth ^ 8, ..identity }) == Life::Dead);
        born.kill();
        expect!(life(identity) == Life::Dead);
        Ok(())
    });
    let told_at = await_word(&page.words[1]);
    if told_at == u64::MAX {
        return eprintln!("skipped a_start_time_is_told_when_its_tick_is_over: needs seccomp");
    }
    let identity = Identity::from_word(page.words[0].load(Ordering::Acquire));
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", identity.pid)).unwrap();
    let started: u64 = stat.rsplit(") ").next().unwrap().split(' ').nth(19).unwrap().parse().unwrap();
    assert_eq!((identity.birth % 2, life(identity)), (0, Life::Alive));
    page.words[2].store(1, Ordering::Release);
    assert!(child.wait());
    assert!(told_at > started, "told at {told_at}, born at {started}");
}

/// What is known of processes that announced themselves in a file, and of what contradicts it.
#[test]
fn announcements_last_as_long_as_the_process() {
    let path = format!("/dev/shm/heapwright-test-announced-{}", std::process::id());
    let path = std::ffi::CString::new(path).unwrap();
    let mut segment = Segment::create_unnamed(c"/dev/shm", 0o600, 1 << 16).unwrap();
    segment.publish(&path).unwrap();
    let file = segment.file();
    let deaths = |namespace| Deaths::Announced(file.announcements(), namespace);
    let (page, stranger) = (shared_page(), Numbers::Unknown);
    let child = Child::run(|| {
        let announcement = Announcement::default();
        let me = Identity::mine().announced(stranger);
        expect!(announcement.make(file, &path, me) == Some(me));
        expect!(announcement.make(file, &path, Identity::mine()) == Some(me));
        page.words[0].store(me.word(), Ordering::Release);
        sleep_for_ever()
    });
    let one = Identity::from_word(await_word(&page.words[0]));
    assert!(one.is_announced());
    assert_eq!((deaths(None).life_of(one), deaths(None).doubt_about(one)), (Life::Alive, None));
    // One that cannot look up announcements knows nothing of a stranger.
    assert_eq!(Deaths::Known.life_of(one), Life::Alive);
    assert!(Deaths::Known.doubt_about(one).is_some());
    child.kill();
    assert_eq!((deaths(None).life_of(one), deaths(None).doubt_about(one)), (Life::Dead, None));

    // This process is known by its number, too, which says that it lives.
    let me = Identity::mine().announced(Numbers::Known);
    let announcement = Announcement::default();
    assert_eq!(announcement.make(file, &path, me), Some(me));
    assert_eq!(deaths(pid_namespace()).doubt_about(me), None);
    drop(announcement);
    assert_eq!(deaths(None).life_of(me), Life::Dead);
    assert_eq!(deaths(pid_namespace()).life_of(me), Life::Alive);
    assert!(deaths(pid_namespace()).doubt_about(me).is_some());
    unlink(&path).unwrap();
}
