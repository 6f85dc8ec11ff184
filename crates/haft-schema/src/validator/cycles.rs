//! Finds nodes that apply to a value again before they are done with it, as `{"$ref": "#"}` does.

use super::node::{Node, NodeId, Rule};

/// Marks at least one node of each cycle of nodes that apply to the same value.
pub(super) fn mark(nodes: &mut [Node]) {
    let followers: Vec<Vec<NodeId>> = nodes.iter().map(in_place).collect();
    let mut states = vec![State::New; nodes.len()];
    for start in 0..nodes.len() {
        // A stack of its own: a chain of references can be long.
        let mut open = vec![(start, 0)];
        while let Some((at, next)) = open.pop() {
            if next == 0 {
                match states.get_mut(at) {
                    Some(state) if *state == State::New => *state = State::Open,
                    _ => continue,
                }
            }
            let follower = followers.get(at).and_then(|list| list.get(next));
            let Some(follower) = follower.and_then(|id| usize::try_from(*id).ok()) else {
                if let Some(state) = states.get_mut(at) {
                    *state = State::Done;
                }
                continue;
            };
            open.push((at, next + 1));
            match states.get(follower) {
                Some(State::New) => open.push((follower, 0)),
                Some(State::Open) => {
                    if let Some(node) = nodes.get_mut(follower) {
                        node.is_cyclic = true;
                    }
                }
                _ => {}
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Done,
}

/// The nodes that a node applies to the same value.
fn in_place(node: &Node) -> Vec<NodeId> {
    let mut followers = Vec::new();
    for rule in &node.rules {
        match rule {
            Rule::AllOf(nodes) | Rule::AnyOf(nodes) | Rule::OneOf(nodes) => {
                followers.extend(nodes.iter().copied());
            }
            Rule::Not(node) | Rule::Reference(node) => followers.push(*node),
            Rule::If { condition, then, otherwise } => {
                followers.push(*condition);
                followers.extend(then.iter().chain(otherwise));
            }
            Rule::DependentSchemas(nodes) => followers.extend(nodes.iter().map(|(_, node)| *node)),
            _ => {}
        }
    }
    followers
}
