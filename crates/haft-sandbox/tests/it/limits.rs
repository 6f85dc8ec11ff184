//! Bounds that the kernel keeps.

use haft_sandbox::{Command, Exit, Strength};

use crate::kit::*;

#[tokio::test]
async fn memory_has_a_bound() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        let mut profile = room.profile();
        profile.limits.memory = 300 << 20;
        let hungry = |megabytes: u32| {
            Command::new("perl").args([
                "-e".to_owned(),
                format!("my $x = 'a' x ({megabytes} << 20); print length $x"),
            ])
        };
        let ended = sandbox.run(hungry(600), profile.clone()).await.unwrap();
        assert_eq!(ended.stdout.seen(), 0);
        assert!(!ended.is_success());
        let ended = sandbox.run(hungry(20), profile).await.unwrap();
        assert_eq!(out(&ended), (20 << 20).to_string(), "{}", err(&ended));
        assert!(ended.memory > 20 << 20);
    }
}

#[tokio::test]
async fn processor_time_has_a_bound() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        let mut profile = room.profile();
        profile.limits.cpu_seconds = 1;
        let ended = sh(&sandbox, profile, "while :; do :; done").await;
        assert!(matches!(ended.exit, Exit::Signal(24 | 9)), "{ended:?}");
        // The kernel counts the limit finely and the use by ticks.
        assert!(ended.cpu.as_millis() >= 500 && ended.cpu.as_secs() < 10, "{:?}", ended.cpu);
    }
}

#[tokio::test]
async fn files_have_a_largest_size_and_their_number_a_bound() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        let mut profile = room.profile();
        profile.limits.file_size = 1 << 20;
        profile.limits.open_files = 20;
        let script = "head -c 5000000 /dev/zero > sub/big; ulimit -n; ulimit -Hn; ulimit -c";
        let ended = sh(&sandbox, profile, script).await;
        assert_eq!(room.inside.join("sub/big").metadata().unwrap().len(), 1 << 20);
        assert_eq!(out(&ended), "20\n20\n0\n");
    }
}

#[tokio::test]
async fn a_fork_storm_stops_where_the_tier_says_so() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        let mut profile = room.profile();
        profile.limits.processes = 20;
        let script = "i=0; while [ $i -lt 60 ]; do sleep 20 & i=$((i+1)); echo $i; done";
        let mut running = sandbox.start(Command::shell(script), profile).await.unwrap();
        let limits = running.tier().limits.clone();
        let ended = running.wait().await;
        let started = out(&ended).lines().count();
        match limits {
            Strength::Enforced => assert!(started < 30, "{started}"),
            // Others of the same user share the limit, so only a bound can be told.
            Strength::Partial(why) if why.contains("same user") => assert!(started <= 60),
            Strength::Partial(_) => assert_eq!(started, 60),
            Strength::None => panic!("there are no limits"),
        }
    }
}

#[tokio::test]
async fn the_private_temporary_folder_has_a_bound_and_is_gone_afterwards() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        let mut profile = room.profile();
        profile.limits.scratch = 1 << 20;
        let marker = marker();
        let script = format!(
            "[ -n \"$TMPDIR\" ] || exit 9; echo x > $TMPDIR/{marker} && cat $TMPDIR/{marker}; ls $TMPDIR"
        );
        let ended = sh(&sandbox, profile, script).await;
        if ended.exit == Exit::Code(9) {
            eprintln!("NOT TESTED: no temporary folder here: {:?}", ended.tier.notes);
            continue;
        }
        assert!(out(&ended).starts_with("x\n"), "{}", err(&ended));
        let left = std::fs::read_dir("/tmp")
            .unwrap()
            .flatten()
            .filter(|e| e.path().join(&marker).exists());
        assert_eq!(left.count(), 0);
        assert!(!std::path::Path::new("/tmp").join(&marker).exists());
    }
}
