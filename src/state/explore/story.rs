//! The way to a world: in words for a reader, and as code for a test.

use std::fmt::{self, Display, Formatter};

use super::{
    config::Config,
    process::Run,
    promise::Promise,
    search::step,
    step::Step,
    world::{DRAWN, World},
};

/// What happened, step by step.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    steps: Vec<Told>,
    pub(crate) broken: Option<Promise>,
    /// A step that this world does not offer: the rest was not taken.
    pub(crate) impossible: Option<Step>,
}

#[derive(Clone, Debug)]
struct Told {
    step: Step,
    what: Vec<String>,
    after: String,
    whole: String,
}

impl Story {
    /// Takes the steps one after another, as far as they are possible and until a promise is broken.
    pub(crate) fn of(config: &Config, steps: &[Step]) -> Self {
        let mut story = Self { steps: Vec::new(), broken: None, impossible: None };
        let mut world = World::new(config);
        let mut run = Run::new(config);
        let mut names = Names::default();
        for &next in steps {
            let mut choices = Vec::new();
            world.choices(config, &mut choices);
            if !choices.contains(&next) {
                story.impossible = Some(next);
                break;
            }
            run.told = Some(Vec::new());
            let after = step(config, &world, next, &mut run);
            let what = run.told.take().unwrap_or_default();
            let what = what.into_iter().map(|line| names.rename(&line)).collect();
            match after {
                Ok(after) => world = after,
                Err(promise) => story.broken = Some(promise),
            }
            let (after, whole) = (names.rename(&summary(&world)), names.rename(&format!("{world:?}")));
            story.steps.push(Told { step: next, what, after, whole });
            story.broken = story.broken.or_else(|| world.breaks(&run.settings));
            if story.broken.is_some() {
                break;
            }
        }
        story
    }

    /// Each world as it is, besides.
    pub(crate) fn whole_worlds(&self) -> String {
        self.steps.iter().map(|told| format!("{:?}: {}\n", told.step, told.whole)).collect()
    }

    /// A test that takes the same steps.
    pub(crate) fn as_test(&self, id: &str) -> String {
        let steps: Vec<String> = self.steps.iter().map(|told| format!("{:?}", told.step)).collect();
        format!("#[test]\nfn a_story_of_{id}() {{\n    keeps_its_promises(\"{id}\", &[{}]);\n}}\n", steps.join(", "))
    }
}

impl Display for Story {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, told) in self.steps.iter().enumerate() {
            writeln!(f, "{:>3}. {}", at + 1, told.step)?;
            for line in &told.what {
                writeln!(f, "       {line}")?;
            }
            writeln!(f, "     {}", told.after)?;
        }
        match self.broken {
            Some(promise) => writeln!(f, "Broken: {}.", promise.broken()),
            None => writeln!(f, "Nothing is broken."),
        }
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Ask(p, t) => write!(f, "task {t} of process {p} asks for the lock"),
            Self::DropFuture(p, t) => write!(f, "task {t} of process {p} drops its future"),
            Self::Come(p, t) => write!(f, "task {t} of process {p} comes when it is called"),
            Self::Take(p, t) => write!(f, "task {t} of process {p} takes what it was offered"),
            Self::EndGuard(p, t, guard) => write!(f, "task {t} of process {p} ends its guard {guard}"),
            Self::UnlockAgain(p, t) => write!(f, "task {t} of process {p} tries a failed unlock again"),
            Self::GiveUpUnlock(p, t) => write!(f, "task {t} of process {p} lets a failed unlock be"),
            Self::Leave(p) => write!(f, "a command of process {p} leaves"),
            Self::Run(p) => write!(f, "the server runs the next command of process {p}"),
            Self::RunTwice(p) => write!(f, "the server runs the next command of process {p}, and will run it again"),
            Self::Requeue(p) => write!(f, "the next command of process {p} goes to the end of its line"),
            Self::Answer(p) => write!(f, "an answer comes to process {p}"),
            Self::RunApart(p) => write!(f, "the server runs the acquire of process {p}"),
            Self::AnswerApart(p) => write!(f, "process {p} hears what became of its acquire"),
            Self::AnswerTooFew(p) => write!(f, "too few replicas know of the grant to process {p}"),
            Self::CutApart(p) => write!(f, "process {p} gives its acquire up"),
            Self::Cut(p) => write!(f, "the link of process {p} is cut"),
            Self::Confirm(p) => write!(f, "the server confirms the subscription of process {p}"),
            Self::Hear(p) => write!(f, "process {p} hears something"),
            Self::Interrupt(p) => write!(f, "the subscription of process {p} is interrupted"),
            Self::Timer(p) => write!(f, "a timer of process {p} fires"),
            Self::Die(p) => write!(f, "process {p} dies"),
            Self::WindDown(p) => write!(f, "the client of process {p} is about to end"),
            Self::Close(p) => write!(f, "the client of process {p} ends"),
            Self::Detach(p, t, guard) => write!(f, "task {t} of process {p} detaches guard {guard}"),
            Self::Attach(p, t) => write!(f, "task {t} of process {p} attaches again"),
            Self::EndDetached(p, t) => write!(f, "task {t} of process {p} ends what it detached"),
            Self::Extend(p, t, guard) => write!(f, "task {t} of process {p} asks for a longer lease of guard {guard}"),
            Self::Failover => write!(f, "another server follows, without the key"),
            Self::HearOfEra(p) => write!(f, "process {p} is told of the new server"),
            Self::RunStray(at) => write!(f, "the server runs stray command {at}"),
            Self::LoseKey => write!(f, "the server loses the key"),
            Self::Look => write!(f, "somebody sees who has the lock"),
            Self::Force => write!(f, "whom somebody saw is to lose the lock"),
            Self::AlmostTick => write!(f, "a tick passes but for a moment"),
            Self::Tick => write!(f, "a tick passes"),
        }
    }
}

fn summary(world: &World) -> String {
    let key = world.key.map_or_else(
        || "the key is free".to_owned(),
        |key| format!("the key: hold {}, count {}, {} ticks left", key.number, key.count, key.ttl),
    );
    let believers: Vec<String> =
        world.believers().map(|(p, number)| format!("process {p} believes in {number}")).collect();
    let strays = match world.strays.len() {
        0 => String::new(),
        count => format!("; {count} strays"),
    };
    format!(
        "-> tick {}, {key}; {}{strays}",
        world.time,
        if believers.is_empty() { "nobody believes".to_owned() } else { believers.join(", ") }
    )
}

/// All that a world is, in words, with short names for the numbers that were drawn.
#[cfg(test)]
pub(crate) fn in_words(world: &World) -> String {
    let mut world = world.clone();
    // How much was drawn is no part of what a process is.
    (0..world.processes.len()).for_each(|at| world.process(at).drawn = 0);
    Names::default().rename(&format!("{world:?}"))
}

/// Short names for the numbers that were drawn.
#[derive(Debug, Default)]
struct Names(Vec<u64>);

impl Names {
    fn rename(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
            let end = rest[at..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |length| at + length);
            out.push_str(&rest[..at]);
            let digits = &rest[at..end];
            match digits.parse::<u64>() {
                Ok(drawn) if drawn & DRAWN != 0 => {
                    let known = self.0.iter().position(|it| *it == drawn);
                    let name = known.unwrap_or_else(|| {
                        self.0.push(drawn);
                        self.0.len() - 1
                    });
                    out.push_str(&format!("#{name}"));
                }
                _ => out.push_str(digits),
            }
            rest = &rest[end..];
        }
        out.push_str(rest);
        out
    }
}
