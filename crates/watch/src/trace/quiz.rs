//! Guess first: before a placement is shown, the user chooses the hole that the policy will take.

use anyhow::Result;
use ratatui::crossterm::event::KeyCode;

use super::before::Hole;
use super::player::Player;
use super::question::Question;
use heapwright_show::number::grouped;

/// What the user is asked, and how many answers were right.
#[derive(Debug, Default)]
pub struct Quiz {
    /// The open question.
    pub question: Option<Question>,
    /// The verdict about the last answer, until the next question.
    pub verdict: Option<Verdict>,
    /// Number of answers.
    pub answers: u64,
    /// Number of right ones.
    pub right: u64,
}

/// The verdict about an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The policy took the chosen hole.
    Right,
    /// It did not.
    Wrong {
        /// The chosen hole, if one was chosen.
        chosen: Option<Hole>,
    },
}

impl Quiz {
    /// Goes on to the next question if none is open; may have to be called again for that. Applies all events up to it.
    pub fn advance(&mut self, player: &mut Player) -> Result<()> {
        if self.question.is_none() && self.verdict.is_none() && !player.is_seeking() {
            self.question = player.advance_to_question()?;
        }
        Ok(())
    }

    /// Handles a key; returns whether it belongs to the quiz.
    pub fn take(&mut self, key: KeyCode, player: &mut Player) -> Result<bool> {
        match (&mut self.question, key) {
            (Some(question), KeyCode::Left) => question.choose_by(-1),
            (Some(question), KeyCode::Right | KeyCode::Tab) => question.choose_by(1),
            (Some(question), KeyCode::Char(digit @ '1'..='9')) => {
                let number = digit as usize - '1' as usize;
                if number < question.choices.len() {
                    question.chosen = number;
                }
            }
            (Some(_), KeyCode::Enter | KeyCode::Char(' ')) => self.answer(player)?,
            (None, KeyCode::Enter | KeyCode::Char(' ') | KeyCode::Right) => self.verdict = None,
            // What would apply events, or take the question away.
            (_, KeyCode::Left | KeyCode::Tab | KeyCode::Char('g' | 's' | '+' | '-' | '=')) => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Applies the event of the question, and compares.
    fn answer(&mut self, player: &mut Player) -> Result<()> {
        let Some(question) = self.question.take() else { return Ok(()) };
        player.apply_one()?;
        let block = player.lanes[0].story.as_ref().and_then(|story| story.mark.clone());
        let taken = block.and_then(|block| question.before.hole_around(block.start));
        let taken = taken.filter(|&hole| question.choices.contains(&Some(hole)));
        self.answers += 1;
        self.verdict = Some(if taken == question.hole() {
            self.right += 1;
            Verdict::Right
        } else {
            Verdict::Wrong { chosen: question.hole() }
        });
        Ok(())
    }

    /// Returns the score in words.
    pub fn score(&self) -> String {
        format!("{} of {} right ", grouped(self.right), grouped(self.answers))
    }
}

impl Verdict {
    /// Returns the verdict in words.
    pub fn text(&self) -> String {
        match self {
            Verdict::Right => "Right. ".to_owned(),
            Verdict::Wrong { chosen: Some(chosen) } => format!("Wrong, not {:#x}. ", chosen.start),
            Verdict::Wrong { chosen: None } => "Wrong, one of them. ".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::fs::File;
    use std::path::Path;

    use heapwright_placement::PolicyKind;
    use heapwright_replay::Model;
    use heapwright_trace::{About, Kind, Writer};

    use super::*;
    use crate::trace::show::Show;
    use crate::trace::tests::{drawn, show};

    fn press(show: &mut Show, keys: &[KeyCode]) {
        for &key in keys {
            show.take(key, &[]).unwrap();
            let Show { player, quiz, .. } = show;
            quiz.as_mut().unwrap().advance(player).unwrap();
        }
    }

    /// Returns the quiz of the demonstration after five events, at its first question.
    fn asked(policy: PolicyKind) -> Show {
        let mut show = Show::asking(show(&[policy], 5).player);
        let Show { player, quiz, .. } = &mut show;
        quiz.as_mut().unwrap().advance(player).unwrap();
        show
    }

    #[test]
    fn the_question_comes_before_the_placement_and_the_verdict_with_the_explanation() {
        let mut show = asked(PolicyKind::Best);
        assert_eq!(show.player.at, 7);
        let lines = drawn(&show, 80, 24);
        assert_eq!(lines[0], " demo  event 7 of 11 · paused                                      0 of 0 right");
        assert_eq!(lines[8..10], ["malloc 90: which of 2 holes does best fit take?", "◀ 1. the hole at 0x0 (160 B) ▶"]);
        press(&mut show, &[KeyCode::Right]);
        assert_eq!(drawn(&show, 80, 24)[9], "◀ 2. the hole at 0xb0 (96 B) ▶");
        assert_eq!(show.mark(0), Some(0xb0..0x110));
        press(&mut show, &[KeyCode::Enter]);
        let lines = drawn(&show, 80, 24);
        assert!(
            lines[0].ends_with("event 8 of 11 · paused                                      1 of 1 right"),
            "{lines:?}"
        );
        assert_eq!(lines[8], "Right. malloc 90 → block 5 at 0xb0");
        assert!(lines[9].starts_with("The hole at 0xb0 (96 B) is taken: the smallest of 2 that fit."), "{lines:?}");
    }

    #[test]
    fn a_wrong_guess_counts_and_is_named() {
        let mut show = asked(PolicyKind::First);
        press(&mut show, &[KeyCode::Char('2'), KeyCode::Char('9'), KeyCode::Enter]);
        let lines = drawn(&show, 80, 24);
        assert!(lines[0].ends_with("0 of 1 right"), "{lines:?}");
        assert_eq!(lines[8], "Wrong, not 0xb0. malloc 90 → block 5 at 0x0");
    }

    #[test]
    fn holes_are_chosen_around_the_end_and_no_key_gives_the_answer_away() {
        let mut show = asked(PolicyKind::First);
        let chosen = |show: &Show| show.quiz.as_ref().unwrap().question.as_ref().map(|question| question.chosen);
        press(&mut show, &[KeyCode::Left]);
        assert_eq!(chosen(&show), Some(1));
        press(&mut show, &[KeyCode::Right]);
        assert_eq!(chosen(&show), Some(0));
        let others = ['g', 's', '+', '-'].map(KeyCode::Char);
        press(&mut show, &others);
        assert_eq!((show.player.at, chosen(&show)), (7, Some(0)));
        assert!(show.player.lanes[0].policy() == PolicyKind::First && show.typed.is_none());
    }

    #[test]
    fn without_another_question_the_quiz_goes_to_the_end() {
        let mut show = asked(PolicyKind::Best);
        press(&mut show, &[KeyCode::Enter, KeyCode::Enter, KeyCode::Enter]);
        assert_eq!((show.player.at, show.quiz.unwrap().score().as_str()), (11, "0 of 1 right "));
    }

    /// Plays a recorded program; `choose` is the definition of the policy.
    fn play(policy: PolicyKind, choose: impl Fn(&Question) -> Hole) {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/sqlite.hwt");
        let mut show = Show::asking(Player::open(Path::new(path), &[Model::usual(policy)], Vec::new()).unwrap());
        for number in 0..300 {
            while show.quiz.as_ref().unwrap().question.is_none() {
                assert!(show.player.at < show.player.count);
                press(&mut show, &[KeyCode::Enter]);
            }
            let question = show.quiz.as_mut().unwrap().question.as_mut().unwrap();
            let right = choose(question);
            question.chosen = question.choices.iter().position(|&hole| hole == Some(right)).unwrap();
            // Every third answer is wrong on purpose.
            question.chosen = (question.chosen + usize::from(number % 3 == 0)) % question.choices.len();
            show.take(KeyCode::Enter, &[]).unwrap();
        }
        assert_eq!(show.quiz.unwrap().score(), "200 of 300 right ");
    }

    fn holes(question: &Question) -> impl Iterator<Item = &Hole> {
        question.choices.iter().flatten()
    }

    #[test]
    fn guesses_by_the_definition_of_the_policy_are_right() {
        play(PolicyKind::First, |question| question.choices[0].unwrap());
        play(PolicyKind::Best, |question| *holes(question).min_by_key(|hole| hole.len).unwrap());
        play(PolicyKind::Worst, |question| {
            *holes(question).max_by_key(|hole| (hole.len, Reverse(hole.start))).unwrap()
        });
        play(PolicyKind::Buddy, |question| *holes(question).min_by_key(|hole| hole.len).unwrap());
        play(PolicyKind::Next, |question| {
            let ahead = holes(question).find(|hole| hole.end() > question.before.rover);
            *ahead.unwrap_or(&question.choices[0].unwrap())
        });
    }

    #[test]
    fn a_policy_may_take_none_of_the_holes() {
        // Both holes of 1,088 bytes are in a class that may have shorter ones.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.hwt");
        let mut writer = Writer::new(File::create(&path).unwrap(), &About::default()).unwrap();
        let blocks = [1088, 16, 1088, 16].map(|size| writer.allocate(Kind::Malloc, size, 16).unwrap());
        writer.free(blocks[0]).unwrap();
        writer.free(blocks[2]).unwrap();
        writer.allocate(Kind::Malloc, 1088, 16).unwrap();
        writer.finish().unwrap();
        let mut show = Show::asking(Player::open(&path, &[Model::usual(PolicyKind::Good)], Vec::new()).unwrap());
        let Show { player, quiz, .. } = &mut show;
        quiz.as_mut().unwrap().advance(player).unwrap();
        press(&mut show, &[KeyCode::Left]);
        assert_eq!(drawn(&show, 80, 24)[9], "◀ 3. none of them ▶");
        assert_eq!(show.mark(0), None);
        press(&mut show, &[KeyCode::Enter]);
        let lines = drawn(&show, 80, 24);
        assert!(lines[0].ends_with("1 of 1 right") && lines[8].starts_with("Right. malloc 1088"), "{lines:?}");
        assert!(
            lines[9].starts_with("2 holes would hold it, but are in no class of sizes from 1.12 KiB on"),
            "{lines:?}"
        );
    }
}
