//! Why a recording lacks something, in words.

use std::io;

use heapwright_host::descriptors::described;
use heapwright_host::process::is_timeout;
use heapwright_os::FileError;
use heapwright_show::number;
use heapwright_translation::Sampled;

/// Describes what the call sites of a process lack, a sentence without its full stop for each defect.
pub(crate) fn lacking(who: &str, sampled: Sampled, stackless: u64) -> Vec<String> {
    let Sampled { requests, sites, unclear, shortened, left_out } = sampled;
    let mut lacking = Vec::new();
    if unclear + left_out > 0 {
        let left_out = match left_out {
            0 => String::new(),
            _ => format!(", {} a site for which the trace has no room", number::grouped(left_out)),
        };
        lacking.push(format!(
            "{} of {} of {who} that were chosen for their sites have a stack that leads nowhere{left_out}",
            number::grouped(unclear),
            number::counted(requests, "request"),
        ));
    }
    if shortened > 0 {
        lacking.push(format!(
            "{} of {} of {who} have their innermost functions only, because a trace has no room for more whole ones; \
             stacks of fewer requests (`record --sites=N`, `sites --every N`) take less",
            number::grouped(shortened),
            number::counted(sites, "call site"),
        ));
    }
    if stackless > 0 {
        lacking.push(format!(
            "{} of {who} could not be chosen for their sites: more than 1,024 threads requested memory, or a handler \
             of a signal did",
            number::counted(stackless, "request"),
        ));
    }
    lacking
}

/// Describes the end of a recording at the limit of its trace.
pub fn why_limited(limit: u64) -> String {
    format!("its trace reached {}, the limit (--max-size)", number::bytes(limit))
}

/// Describes an error of this command: an error of the system by what it means and what to do.
pub fn in_words(error: &anyhow::Error) -> String {
    match error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error).map(FileError::of) {
        Some(FileError::NoDescriptors) | None => described(error),
        Some(error) => error.to_string(),
    }
}

/// Describes a failure that ended the recording in a process.
pub fn reason(failure: i32) -> String {
    match is_timeout(failure) {
        true => "the collector did not keep up with it for ten seconds".to_owned(),
        false => FileError::of(failure).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_call_sites_lack_is_told_and_nothing_else() {
        let whole = Sampled { requests: 5000, sites: 2000, ..Sampled::default() };
        assert_eq!(lacking("p", whole, 0), Vec::<String>::new());
        let first = |sampled, stackless| lacking("p", sampled, stackless).swap_remove(0);
        let chosen = "of 5,000 requests of p that were chosen for their sites have a stack that leads nowhere";
        let unclear = Sampled { unclear: 7, ..whole };
        assert_eq!(first(unclear, 0), format!("7 {chosen}"));
        let left_out = Sampled { left_out: 9, ..unclear };
        assert_eq!(first(left_out, 0), format!("7 {chosen}, 9 a site for which the trace has no room"));
        let shortened = first(Sampled { shortened: 1234, ..whole }, 0);
        assert!(shortened.starts_with("1,234 of 2,000 call sites of p have their innermost functions only, "));
        assert!(first(whole, 1).starts_with("1 request of p could not be chosen for their sites: "));
        assert_eq!(lacking("p", Sampled { shortened: 1, ..left_out }, 1).len(), 3);
    }
}
