//! A client that sends a Redis server the same load on every run.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

/// The server's socket, in its folder.
pub const SOCKET: &str = "redis.socket";

/// Commands, and keys of each kind.
const COMMANDS: usize = 200_000;
const KEYS: usize = 10_000;

/// Time limit for the server's start and for each reply.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for the server whose socket is in `folder`, sends the load, and shuts it down. Gives up when `is_over` returns
/// that the server has ended.
///
/// # Errors
/// When the server does not start, or refuses the requests.
pub fn load(folder: &Path, is_over: impl Fn() -> bool) -> Result<()> {
    let mut server = connect(&folder.join(SOCKET), is_over)?;
    server.set_read_timeout(Some(PATIENCE))?;
    server.set_write_timeout(Some(PATIENCE))?;
    // The server sends no replies until the end, so that only the server is measured.
    send(&mut server, &[b"CLIENT", b"REPLY", b"OFF"])?;
    let (mut rng, mut commands) = (Rng::with_seed(1), Vec::new());
    let value: Vec<u8> = (b'a'..=b'z').cycle().take(1024).collect();
    for _ in 0..COMMANDS / BATCH {
        commands.clear();
        (0..BATCH).try_for_each(|_| command(&mut commands, &mut rng, &value))?;
        server.write_all(&commands).context("the server does not take commands")?;
    }
    send(&mut server, &[b"CLIENT", b"REPLY", b"ON"])?;
    let mut answer = [0; 5];
    server.read_exact(&mut answer).context("the server does not answer")?;
    ensure!(&answer == b"+OK\r\n", "the server answers out of turn");
    send(&mut server, &[b"SHUTDOWN", b"NOSAVE"])?;
    Ok(())
}

/// Number of commands per write.
const BATCH: usize = 100;

fn connect(socket: &Path, is_over: impl Fn() -> bool) -> Result<UnixStream> {
    let start = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(server) => return Ok(server),
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
