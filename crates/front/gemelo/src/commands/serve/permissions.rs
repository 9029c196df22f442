//! Modes and groups of files as values of options.

use nix::unistd::Group;
use std::str::FromStr;
use thiserror::Error;

/// Permission bits of a file, written in octal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileMode(pub(super) u32);

/// All permission bits of user, group and others.
const ALL_BITS: u32 = 0o777;

#[derive(Debug, Error)]
#[error("'{0}' is not a mode: give three octal digits, such as 0660")]
pub(super) struct UnknownMode(String);

impl FromStr for FileMode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        let is_octal = text.bytes().all(|byte| byte.is_ascii_digit());
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= ALL_BITS);
        mode.map(Self).ok_or_else(|| UnknownMode(text.to_owned()))
    }
}

/// The number of a group of this system, given as its number or name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupId(pub(super) u32);

#[derive(Debug, Error)]
pub(super) enum UnknownGroup {
    #[error("this system has no group '{0}': `getent group` lists the groups")]
    Name(String),
    #[error("cannot look up the group '{name}'")]
    System { name: String, source: nix::Error },
}

impl FromStr for GroupId {
    type Err = UnknownGroup;

    fn from_str(text: &str) -> Result<Self, UnknownGroup> {
        let number = text.parse().ok().filter(|number| *number != u32::MAX);
        if let Some(number) = number {
            return Ok(Self(number));
        }
        match Group::from_name(text) {
            Ok(Some(group)) => Ok(Self(group.gid.as_raw())),
            Ok(None) => Err(UnknownGroup::Name(text.to_owned())),
            Err(source) => Err(UnknownGroup::System { name: text.to_owned(), source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal() {
        for (text, mode) in [("0660", 0o660), ("600", 0o600), ("0", 0), ("777", 0o777)] {
            assert_eq!(text.parse::<FileMode>().unwrap(), FileMode(mode));
        }
        for text in ["", "8", "0o660", "+660", "1777", "u+rw"] {
            assert!(text.parse::<FileMode>().is_err(), "{text}");
        }
    }

    #[test]
    fn groups_have_names_and_numbers() {
        assert_eq!("root".parse::<GroupId>().unwrap(), GroupId(0));
        assert_eq!("1234".parse::<GroupId>().unwrap(), GroupId(1234));
        let error = "no such group".parse::<GroupId>().unwrap_err();
        assert!(error.to_string().contains("no group 'no such group'"), "{error}");
    }
}
