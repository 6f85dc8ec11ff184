//! x
use crate::kit::*;

#[tokio::test]
async fn smoke() {
    let room = Room::new();
    for sandbox in sandboxes().await {
        println!("{:#?}", sandbox.tier());
        let ended = sh(&sandbox, room.profile(), "id; pwd; ls -la . ; ls -la /tmp|head -5; echo hi > sub/new; echo hi > x; echo hi > ../outside/x; cat notes.txt; cat /proc/self/status | grep -E 'Cap|Sec|NoN'; ls /dev; mount | tail -50").await;
        println!("{:?} {:?}\n{}\n---\n{}", ended.exit, ended.how, out(&ended), err(&ended));
        println!("{:?}", ended.facts());
    }
}
