//! The settings of pools and volumes as options, made from the table of settings.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use gemelo_serve::{Applies, Kind, SETTINGS, Setting, Value, Values};
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// The word that takes a choice back.
const DEFAULT: &str = "default";

/// The settings that a command has as options.
pub(crate) trait OptionSet {
    /// Returns whether the command has the setting.
    fn has(setting: &Setting) -> bool;
    /// `true` if the help of the command lists them.
    const ARE_SHOWN: bool;
}

/// The settings of pools, in the help.
#[derive(Debug)]
pub(crate) struct OfPools;

/// The settings of pools, which `pool set --help` lists.
#[derive(Debug)]
pub(crate) struct OfPoolsHidden;

/// The settings of volumes, in the help.
#[derive(Debug)]
pub(crate) struct OfVolumes;

impl OptionSet for OfPools {
    fn has(setting: &Setting) -> bool {
        setting.is_of_pools()
    }

    const ARE_SHOWN: bool = true;
}

impl OptionSet for OfPoolsHidden {
    fn has(setting: &Setting) -> bool {
        setting.is_of_pools()
    }

    const ARE_SHOWN: bool = false;
}

impl OptionSet for OfVolumes {
    fn has(setting: &Setting) -> bool {
        setting.is_of_volumes()
    }

    const ARE_SHOWN: bool = true;
}

/// A value, or the wish to have none of one's own.
type Choice = Option<Value>;

/// The settings that were given as options.
#[derive(Debug)]
pub(crate) struct SettingOptions<S> {
    given: Vec<(&'static Setting, Choice)>,
    set: PhantomData<S>,
}

impl<S> SettingOptions<S> {
    /// Returns the values. A default that was asked for is none.
    pub(crate) fn values(&self) -> Values {
        let mut values = Values::default();
        for (setting, choice) in &self.given {
            values.set(setting, choice.clone());
        }
        values
    }

    /// Returns the texts of the values by the names of the settings.
    pub(crate) fn changes(&self) -> BTreeMap<String, Option<String>> {
        let text = |choice: &Choice| choice.as_ref().map(Value::to_string);
        self.given.iter().map(|(known, choice)| (known.name.to_owned(), text(choice))).collect()
    }

    /// Returns the settings that were given.
    pub(crate) fn settings(&self) -> impl Iterator<Item = &'static Setting> {
        self.given.iter().map(|(setting, _)| *setting)
    }
}

fn parse(kind: Kind, text: &str) -> Result<Choice, String> {
    match text {
        DEFAULT => Ok(None),
        text => kind.parse(text).map(Some),
    }
}

fn argument<S: OptionSet>(setting: &'static Setting) -> Arg {
    let kind = setting.kind;
    let later = match setting.applies {
        Applies::NextOpening if S::ARE_SHOWN => "; from the next opening on",
        _ => "",
    };
    let words = match kind {
        Kind::Word(words) => format!(": {}", words.join(", ")),
        _ => String::new(),
    };
    Arg::new(setting.name)
        .long(setting.name)
        .value_name(kind.value_name())
        .help(format!("{}{words} [default: {}{later}]", setting.about, setting.default))
        .help_heading("Settings")
        .hide(!S::ARE_SHOWN)
        .action(ArgAction::Set)
        .value_parser(move |text: &str| parse(kind, text))
}

impl<S: OptionSet> Args for SettingOptions<S> {
    fn augment_args(command: Command) -> Command {
        command.args(SETTINGS.iter().filter(|setting| S::has(setting)).map(argument::<S>))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: OptionSet> FromArgMatches for SettingOptions<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = SETTINGS.iter().filter(|setting| S::has(setting));
        let given =
            given.filter_map(|known| Some((known, matches.get_one::<Choice>(known.name)?.clone())));
        Ok(Self { given: given.collect(), set: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
