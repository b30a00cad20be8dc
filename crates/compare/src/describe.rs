//! The headline, notes and legend of a comparison.

use super::comparison::Comparison;
use super::metric::Origin;
use heapwright_show::number::{self, counted};

impl Comparison {
    /// Returns what was compared, where and how long, in two lines.
    pub fn headline(&self) -> [String; 2] {
        let trace = &self.trace;
        let threads = counted(trace.threads, "thread");
        let settings = &self.settings;
        let machine = self.machine.describe();
        let rounds = match settings.rounds {
            0 => "simulated only".to_owned(),
            rounds => format!("{} in {}", counted(rounds.into(), "round"), number::seconds(settings.seconds)),
        };
        let trace = format!(
            "{}: {}, {threads}, at most {} asked for at one time",
            trace.title(),
            counted(trace.events, "event"),
            number::bytes(trace.peak_asked)
        );
        [trace, format!("{machine}: {rounds}")]
    }

    /// Returns why figures are missing, and what else must be known of rows.
    pub fn notes(&self) -> Vec<String> {
        let missing = failures(self.rows.iter().filter_map(|row| Some((row.name.as_str(), row.note.as_deref()?))));
        let refused = self.rows.iter().filter(|row| row.note.is_none()).filter_map(|row| {
            let refused = row.refused.filter(|&refused| refused > 0)?;
            Some(format!("{}: {} found no place", row.name, counted(refused, "request")))
        });
        let cut = self.trace.is_in_part().then(|| match &self.trace.incomplete {
            Some(why) => format!("The recording ended before the program did: {why}."),
            None => "The trace was cut off: it ends before the program did.".to_owned(),
        });
        let interrupted = self
            .settings
            .interrupted
            .then(|| "Interrupted: the figures are those of the rounds until then.".to_owned());
        let timeless = (self.trace.has_times == Some(false)).then(|| {
            "Pauses are not known: the trace does not say when its events happened, so that memory which allocators \
             give back after a while is not given back here."
                .to_owned()
        });
        let ruled = self.settings.rules.as_ref().map(|rules| format!("The policies' rules: {rules}."));
        let confirmed = self.confirmation.iter().flat_map(|confirmation| &confirmation.rows);
        let unconfirmed = confirmed
            .filter_map(|row| Some(format!("{}, the program itself: {}", row.name, in_a_line(row.note.as_ref()?))));
        let slow = self.rows.iter().filter_map(|row| {
            let reason = row.reference_engine.as_ref()?;
            Some(format!("{}: reference engine, because {reason}", row.name))
        });
        ruled
            .into_iter()
            .chain(slow)
            .chain(missing)
            .chain(unconfirmed)
            .chain(refused)
            .chain(cut)
            .chain(timeless)
            .chain(interrupted)
            .collect()
    }

    /// Returns how to read the tables.
    pub fn legend(&self) -> String {
        let simulated =
            "Peak heap, fragmentation and holes are simulated: at the peak of the heap, then the mean over all events.";
        let settings = &self.settings;
        if settings.rounds == 0 {
            return format!("* best of its column, ~ reads the same. {simulated}");
        }
        let noise = match self.noise() {
            Some(noise) => format!(" Noise: {:.1} %.", 100.0 * noise),
            None => String::new(),
        };
        let timed = match settings.timed_rounds {
            0 => String::new(),
            timed => format!(", of single calls of {}", counted(timed.into(), "round")),
        };
        let time = if settings.threads { "elapsed" } else { "processor" };
        let harness = match self.is_net() {
            true => "without what the harness takes (no-op)",
            false => "with what the harness takes",
        };
        let predicted = match self.rows.iter().any(|row| row.program.is_some()) {
            true => "Predicted: processor time and peak RSS of the whole program. ",
            false => "",
        };
        format!(
            "* best of its column, ~ shown to be as good within 5 %.{noise} {predicted}Medians of {}{timed}, with \
             95 % intervals; time is {time} time in malloc and free and touching the blocks, {harness}, RSS that of \
             the heap alone. Kept: metadata, caches and free pages, with rounding and holes where these are not known; \
             negative where pages were never touched. {simulated}",
            counted(settings.rounds.into(), "round"),
        )
    }
}

impl Origin {
    /// In a word.
    pub fn describe(self) -> &'static str {
        match self {
            Origin::Predicted => "predicted",
            Origin::Measured => "measured",
            Origin::Timed => "single calls",
            Origin::Simulated => "simulated",
        }
    }
}

/// Describes why subjects have no figures, from their names and notes. A reason that concerns several is given once.
fn failures<'n>(notes: impl Iterator<Item = (&'n str, &'n str)>) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, note) in notes {
        let note = in_a_line(note);
        match reasons.iter_mut().find(|(known, _)| *known == note) {
            Some((_, names)) => names.push(name),
            None => reasons.push((note, vec![name])),
        }
    }
    reasons.into_iter().map(|(reason, names)| format!("{}: {reason}", names.join(", "))).collect()
}

/// Returns a note, which may contain what a program printed, as one line.
fn in_a_line(note: &str) -> String {
    note.lines().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::failures;

    #[test]
    fn a_reason_that_concerns_several_allocators_is_given_once() {
        let notes = [
            ("system", "there is no memory: simulate it"),
            ("first", "lost its\ncontents"),
            ("system (A/A)", "there is no memory: simulate it"),
        ];
        let expected = ["system, system (A/A): there is no memory: simulate it", "first: lost its contents"];
        assert_eq!(failures(notes.into_iter()), expected);
    }
}
