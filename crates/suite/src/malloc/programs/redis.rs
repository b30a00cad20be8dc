//! A client that sends a Redis server the same load on every run.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use heapwright_bench::SAMPLES;

use crate::malloc::figures::Kept;

/// The server's socket, in its folder.
pub const SOCKET: &str = "redis.socket";

/// Commands, and keys of each kind.
const COMMANDS: usize = 200_000;
const KEYS: usize = 10_000;

/// Keys that are set before most of them are deleted, and the part that stays.
const SET: usize = 100_000;
const STAYS: usize = 10;

/// Time limit for the server's start and for each reply.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for the server whose socket is in `folder`, sends the load, and shuts it down. Gives up when `is_over` returns
/// that the server has ended.
///
/// # Errors
/// When the server does not start, or refuses the requests.
pub fn load(folder: &Path, is_over: impl Fn() -> bool) -> Result<()> {
    let mut server = connect(&folder.join(SOCKET), is_over)?;
    let (mut rng, value) = (Rng::with_seed(1), value(1024));
    without_replies(&mut server, |server| send_all(server, 0..COMMANDS, |out, _| command(out, &mut rng, &value)))?;
    send(&mut server, &[b"SHUTDOWN", b"NOSAVE"])?;
    Ok(())
}

/// Sets many keys with values of 8 to 2,000 bytes, deletes nine in ten of them at random, and returns the server's
/// anonymous memory before and after. Waits, gives up and shuts the server down as [`load`].
///
/// # Errors
/// As [`load`], and when the server's memory cannot be read.
pub fn delete_most(folder: &Path, is_over: impl Fn() -> bool) -> Result<Kept> {
    let mut server = connect(&folder.join(SOCKET), is_over)?;
    let pid = pid_of(&mut server)?;
    let (mut rng, value) = (Rng::with_seed(1), value(2000));
    without_replies(&mut server, |server| {
        send_all(server, 0..SET, |out, key| {
            let length = rng.usize(8..=value.len());
            send(out, &[b"SET", format!("key:{key}").as_bytes(), &value[..length]])
        })
    })?;
    let before = anonymous(pid)?;
    let mut deleted: Vec<usize> = (0..SET).collect();
    rng.shuffle(&mut deleted);
    deleted.truncate(SET - SET / STAYS);
    without_replies(&mut server, |server| {
        send_all(server, deleted, |out, key| send(out, &[b"DEL", format!("key:{key}").as_bytes()]))
    })?;
    let start = Instant::now();
    let after = SAMPLES.iter().map(|(milliseconds, _)| {
        thread::sleep(Duration::from_millis(*milliseconds).saturating_sub(start.elapsed()));
        Ok((*milliseconds, anonymous(pid)?))
    });
    let after = after.collect::<Result<_>>()?;
    send(&mut server, &[b"SHUTDOWN", b"NOSAVE"])?;
    Ok(Kept { before, after, live_pages: None })
}

/// Returns the longest value.
fn value(length: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(length).collect()
}

/// Has the server send no replies while `requests` are sent, so that only the server is measured, and waits until it
/// has processed them.
fn without_replies(server: &mut UnixStream, requests: impl FnOnce(&mut UnixStream) -> Result<()>) -> Result<()> {
    send(server, &[b"CLIENT", b"REPLY", b"OFF"])?;
    requests(server)?;
    send(server, &[b"CLIENT", b"REPLY", b"ON"])?;
    let mut answer = [0; 5];
    server.read_exact(&mut answer).context("the server does not answer")?;
    ensure!(&answer == b"+OK\r\n", "the server answers out of turn");
    Ok(())
}

/// Sends the request that `write` makes of each item, in batches.
fn send_all<I>(
    server: &mut UnixStream,
    items: impl IntoIterator<Item = I>,
    mut write: impl FnMut(&mut Vec<u8>, I) -> io::Result<()>,
) -> Result<()> {
    let (mut items, mut commands) = (items.into_iter().peekable(), Vec::new());
    while items.peek().is_some() {
        commands.clear();
        items.by_ref().take(BATCH).try_for_each(|item| write(&mut commands, item))?;
        server.write_all(&commands).context("the server does not take commands")?;
    }
    Ok(())
}

/// Returns the server's process.
fn pid_of(server: &mut UnixStream) -> Result<u32> {
    send(server, &[b"INFO", b"server"])?;
    let mut reply = BufReader::new(server);
    let mut line = String::new();
    reply.read_line(&mut line)?;
    let length: u64 = line.trim_end().strip_prefix('$').and_then(|text| text.parse().ok()).context("no reply")?;
    let mut text = String::new();
    // The text ends with the protocol's end of a line.
    reply.take(length + 2).read_to_string(&mut text)?;
    let pid = text.lines().find_map(|line| line.strip_prefix("process_id:"));
    pid.and_then(|pid| pid.trim().parse().ok()).context("the server does not tell its process")
}

/// Returns the resident anonymous memory of a process, in bytes.
fn anonymous(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let kibibytes = text.lines().find_map(|line| line.strip_prefix("Anonymous:")?.trim().strip_suffix(" kB"));
    let kibibytes: u64 =
        kibibytes.and_then(|number| number.parse().ok()).with_context(|| format!("no figure in {path}"))?;
    Ok(kibibytes * 1024)
}

/// Number of commands per write.
const BATCH: usize = 100;

fn connect(socket: &Path, is_over: impl Fn() -> bool) -> Result<UnixStream> {
    let start = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(server) => {
                server.set_read_timeout(Some(PATIENCE))?;
                server.set_write_timeout(Some(PATIENCE))?;
                return Ok(server);
            }
            Err(error) if is_over() || start.elapsed() > PATIENCE => return Err(error).context("there is no server"),
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Sends one command of a mix: strings, some of which grow or are deleted, lists, and hashes.
fn command(out: &mut impl Write, rng: &mut Rng, value: &[u8]) -> io::Result<()> {
    let key = rng.usize(..KEYS);
    let longest = 1 << rng.u32(4..=10);
    let value = &value[..rng.usize(8..=longest)];
    match rng.u32(..10) {
        0..4 => send(out, &[b"SET", format!("string:{key}").as_bytes(), value]),
        4 => send(out, &[b"GET", format!("string:{key}").as_bytes()]),
        5 => send(out, &[b"DEL", format!("string:{key}").as_bytes()]),
        6 => send(out, &[b"APPEND", format!("string:{}", key % 100).as_bytes(), &value[..8]]),
        7 => send(out, &[b"LPUSH", format!("list:{}", key % 500).as_bytes(), value]),
        8 => send(out, &[b"RPOP", format!("list:{}", key % 500).as_bytes()]),
        _ => send(out, &[b"HSET", format!("hash:{}", key % 200).as_bytes(), format!("field:{key}").as_bytes(), value]),
    }
}

/// Sends a command in Redis' protocol.
fn send(out: &mut impl Write, words: &[&[u8]]) -> io::Result<()> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        write!(bytes, "${}\r\n", word.len())?;
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    out.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_sent_as_lists_of_words_with_their_lengths() {
        let mut sent = Vec::new();
        send(&mut sent, &[b"GET", b"a b"]).unwrap();
        assert_eq!(sent, b"*2\r\n$3\r\nGET\r\n$3\r\na b\r\n");
    }

    #[test]
    fn without_a_server_nobody_waits() {
        let folder = tempfile::tempdir().unwrap();
        assert!(load(folder.path(), || true).unwrap_err().to_string().contains("no server"));
    }
}
