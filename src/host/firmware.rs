//! The firmware's version and date, as far as anyone may read them. A BIOS update changes microcode and
//! the switches that hide ERMS and FSRM together, so it belongs beside both. Serial numbers stay unread.

use super::system::System;
use crate::report::{Fact, Firmware, Host, Unknowns};

/// The longest value kept; DMI strings are short.
const LONGEST: usize = 100;

/// The facts of /sys/class/dmi/id.
pub fn facts(system: &System, unknown: &mut Unknowns) -> Option<Firmware> {
    if let Fact::Unknown(reason) = system.names("/sys/class/dmi/id") {
        unknown.insert("firmware".into(), reason);
        return None;
    }
    let mut read = |field: &str, file: &str| {
        let text = system.text(&format!("/sys/class/dmi/id/{file}"));
        let short = text.map(|text| text.chars().take(LONGEST).collect::<String>());
        Host::take(unknown, &format!("firmware.{field}"), short)
    };
    Some(Firmware {
        bios_version: read("bios_version", "bios_version"),
        bios_date: read("bios_date", "bios_date"),
        board: read("board", "board_name"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_has_a_reason_and_serials_stay_out() {
        let root = tempfile::tempdir().unwrap();
        let mut unknown = Unknowns::new();
        assert_eq!(facts(&System::at(root.path()), &mut unknown), None);
        assert!(unknown.contains_key("firmware"));

        let folder = root.path().join("sys/class/dmi/id");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("bios_version"), "F37\n").unwrap();
        std::fs::write(folder.join("board_serial"), "1234567\n").unwrap();
        let mut unknown = Unknowns::new();
        let firmware = facts(&System::at(root.path()), &mut unknown).unwrap();
        assert_eq!(firmware.bios_version.as_deref(), Some("F37"));
        assert_eq!(unknown.keys().collect::<Vec<_>>(), ["firmware.bios_date", "firmware.board"]);
        assert!(!format!("{firmware:?}").contains("1234567"));
    }
}
