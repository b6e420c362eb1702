//! Invalid arguments of the two commands, and their output.

use super::world::World;
use crate::database::{Database, On};

#[tokio::test]
async fn invalid_arguments_are_errors() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let mut world = World::start(&database).await;
    let (code, _, said) = world.run(&["restore-check"]);
    assert!(code == 1 && said.contains("only one process may"), "{said}");
    assert!(world.server.terminate());
    for (arguments, wanted_code, wanted) in [
        (&["restore-check"][..], 0, "the database that ran last"),
        (&["restore-check", "--yes"], 2, "--reason"),
        (&["restore-check", "--yes", "--reason", ""], 2, "--reason is one line"),
        (&["restore-check", "--yes", "--reason", "r"], 4, "name the moment of its backup"),
        (&["restore-check", "--backed-up-at", "soon"], 2, "--backed-up-at: `soon` is no time"),
        (&["restore-check", "--backed-up-at", "1h", "--acknowledged-until", "2h"], 2, "is later than"),
        (&["restore-check", "--moved", "--pause"], 2, "cannot be used with"),
        (
            // What nothing in it shows, the operator says, and sees what follows before it is done.
            &[
                "restore-check",
                "--backed-up-at",
                "2026-11-22T03:00Z",
                "--acknowledged-until",
                "2026-11-22T04:00Z",
            ],
            7,
            "the times are the ones that you gave.\nLost: what was acknowledged after 2026-11-22 03:00",
        ),
        (&["restore-check", "--yes", "--moved", "--reason", "r"], 0, "nothing is missing"),
        // A copy without a mark: the operator says when it was made.
        (&["restore-check", "--yes", "--backed-up-at", "1h", "--reason", "r"], 0, "Taken over"),
    ] {
        let (code, out, err) = world.run(arguments);
        assert_eq!(code, wanted_code, "{arguments:?}: {out}{err}");
        assert!(format!("{out}{err}").contains(wanted), "{arguments:?}: {out}{err}");
        // What decides is a row of the audit log, and its line is on stderr.
        let is_decision = code == 0 && arguments.contains(&"--yes");
        let lines = err.lines().filter(|line| line.contains("hooklatch::audit"));
        assert_eq!(
            lines.filter(|line| line.contains("detail_sha256")).count(),
            usize::from(is_decision),
            "{err}"
        );
        assert!(!err.contains("INFO") || is_decision, "{err}");
    }
    let rows = "SELECT COUNT(*) FROM audit_log WHERE actor = 'restore-check'";
    assert_eq!(database.count(rows).await, 2);
    world.server.spawn().await;
}

/// What a server sends while the database is taken over would be sent again.
#[tokio::test]
async fn a_database_is_not_taken_over_while_a_node_runs_on_it() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let world = World::start(&database).await;
    let take = ["restore-check", "--yes", "--backed-up-at", "1h", "--reason", "r"];
    let (code, out, err) = world.run(&take);
    assert_eq!(code, 4, "{out}{err}");
    assert!(err.contains("runs on this database. Stop every server"), "{err}");
    assert_eq!(database.count("SELECT COUNT(*) FROM restores").await, 0);
    assert!({ world }.server.terminate());
}
