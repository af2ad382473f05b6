//! Which objects belong to which seeds, by what refers to them. An object that names its seeds in a field (a Shoot, an
//! installation) makes itself and what it refers to belong to these; what else is known are edges from an object to the one
//! through which it belongs to a seed (a Secret to its binding, a Project to its namespace).
//!
//! Every place and edge is counted by the objects that hold it, so that what one of them lets go of stays with the others,
//! and nothing is left of an object that is gone. It knows no verbs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::kinds::Kind;
use crate::objects::{Holder, Ref};

/// Edges in a row that are followed at most. The longest way there is: a Secret to its binding, a binding to a seed.
const DEPTH_MAX: usize = 3;

/// One object. The namespace is empty where there is none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Vertex {
    kind: Kind,
    namespace: Arc<str>,
    name: Arc<str>,
}

/// What makes an object belong to seeds.
#[derive(Clone, Debug, Default)]
struct Node {
    /// Seeds by name, sorted, each with the number of objects that say so.
    seeds: Vec<(Arc<str>, u32)>,
    /// Objects through which it belongs to what they belong to, sorted and counted alike.
    through: Vec<(Vertex, u32)>,
}

/// What one object holds in the graph.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    seeds: Vec<Arc<str>>,
    /// All of these belong to all of the seeds.
    places: Vec<Vertex>,
    /// The first belongs to what the second belongs to.
    edges: Vec<(Vertex, Vertex)>,
}

/// Names of objects by their namespace.
type Names<T> = HashMap<Arc<str>, HashMap<Arc<str>, T>>;

/// The graph.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: HashMap<Kind, Names<Node>>,
    held: HashMap<Vertex, Held>,
    texts: Texts,
}

impl Graph {
    /// Takes in an object as it is now. False if nothing that counts has changed.
    pub fn put<H: Holder>(&mut self, object: &H) -> bool {
        let (namespace, name) = object.place();
        let holder = self.vertex(H::HOLDER, namespace, name);
        let new = self.hold(&holder, object);
        if self.held.get(&holder) == Some(&new) {
            return false;
        }
        let old = self.held.remove(&holder);
        for place in &new.places {
            for seed in &new.seeds {
                count(&mut node(&mut self.nodes, place).seeds, seed);
            }
        }
        for (from, to) in &new.edges {
            count(&mut node(&mut self.nodes, from).through, to);
        }
        if let Some(old) = old {
            self.release(&old);
        }
        if !(new.places.is_empty() && new.edges.is_empty()) {
            self.held.insert(holder, new);
        }
        true
    }

    /// Forgets an object. False if nothing was known of it.
    pub fn remove(&mut self, kind: Kind, namespace: &str, name: &str) -> bool {
        let holder = self.vertex(kind, namespace, name);
        let old = self.held.remove(&holder);
        if let Some(old) = &old {
            self.release(old);
        }
        old.is_some()
    }

    /// Forgets all objects of a kind that are not among these, each by namespace and name. False if there were none.
    pub fn retain(&mut self, kind: Kind, present: &HashSet<(String, String)>) -> bool {
        let is_gone = |vertex: &&Vertex| {
            let key = (vertex.namespace.to_string(), vertex.name.to_string());
            vertex.kind == kind && !present.contains(&key)
        };
        let gone: Vec<Vertex> = self.held.keys().filter(is_gone).cloned().collect();
        for vertex in &gone {
            self.remove(vertex.kind, &vertex.namespace, &vertex.name);
        }
        !gone.is_empty()
    }

    /// Whether an object belongs to a seed: itself, or through others.
    pub fn reaches(&self, kind: Kind, namespace: &str, name: &str, seed: &str) -> bool {
        let node = self.node(kind, namespace, name);
        node.is_some_and(|node| self.leads_to(node, seed, DEPTH_MAX))
    }

    /// Whether anything at all refers to an object.
    pub fn is_claimed(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        self.node(kind, namespace, name).is_some()
    }

    /// Objects that hold something, places that are known, edges and seeds of places: what its size hangs on.
    pub fn size(&self) -> (usize, usize, usize) {
        let nodes = || self.nodes.values().flat_map(HashMap::values).flat_map(HashMap::values);
        let edges = nodes().map(|node| node.seeds.len() + node.through.len()).sum();
        (self.held.len(), nodes().count(), edges)
    }

    fn leads_to(&self, node: &Node, seed: &str, depth: usize) -> bool {
        let own = node.seeds.binary_search_by(|(known, _)| (**known).cmp(seed));
        if own.is_ok() {
            return true;
        }
        depth > 0
            && node.through.iter().any(|(vertex, _)| {
                let next = self.node(vertex.kind, &vertex.namespace, &vertex.name);
                next.is_some_and(|next| self.leads_to(next, seed, depth - 1))
            })
    }

    fn node(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Node> {
        self.nodes.get(&kind)?.get(namespace)?.get(name)
    }

    fn vertex(&mut self, kind: Kind, namespace: &str, name: &str) -> Vertex {
        Vertex {
            kind,
            namespace: self.texts.shared(namespace),
            name: self.texts.shared(name),
        }
    }

    fn hold<H: Holder>(&mut self, holder: &Vertex, object: &H) -> Held {
        let drawn = object.draw();
        let mut vertex = |reference: &Ref| self.vertex(reference.kind, &reference.namespace, &reference.name);
        let mut places: Vec<Vertex> = drawn.places.iter().map(&mut vertex).collect();
        let mut edges: Vec<(Vertex, Vertex)> = Vec::new();
        edges.extend(drawn.referred.iter().map(|from| (vertex(from), holder.clone())));
        edges.extend(drawn.through.iter().map(|to| (holder.clone(), vertex(to))));
        let mut seeds: Vec<Arc<str>> = drawn.seeds.iter().map(|seed| self.texts.shared(seed)).collect();
        seeds.sort_unstable();
        seeds.dedup();
        if seeds.is_empty() {
            places.clear();
        }
        places.sort_unstable();
        places.dedup();
        edges.sort_unstable();
        edges.dedup();
        Held { seeds, places, edges }
    }

    fn release(&mut self, held: &Held) {
        for place in &held.places {
            for seed in &held.seeds {
                uncount(&mut node(&mut self.nodes, place).seeds, seed);
            }
            self.drop_empty(place);
        }
        for (from, to) in &held.edges {
            uncount(&mut node(&mut self.nodes, from).through, to);
            self.drop_empty(from);
        }
        self.texts.end(1 + held.places.len() + held.edges.len());
    }

    fn drop_empty(&mut self, vertex: &Vertex) {
        let Some(names) = self.nodes.get_mut(&vertex.kind) else {
            return;
        };
        let Some(inside) = names.get_mut(&vertex.namespace) else {
            return;
        };
        let is_empty = |node: &Node| node.seeds.is_empty() && node.through.is_empty();
        if inside.get(&vertex.name).is_some_and(is_empty) {
            inside.remove(&vertex.name);
        }
        if inside.is_empty() {
            names.remove(&vertex.namespace);
        }
    }
}

fn node<'n>(nodes: &'n mut HashMap<Kind, Names<Node>>, vertex: &Vertex) -> &'n mut Node {
    let names = nodes.entry(vertex.kind).or_default();
    let inside = names.entry(vertex.namespace.clone()).or_default();
    inside.entry(vertex.name.clone()).or_default()
}

fn count<T: Ord + Clone>(counts: &mut Vec<(T, u32)>, one: &T) {
    match counts.binary_search_by(|(known, _)| known.cmp(one)) {
        Ok(at) => counts[at].1 += 1,
        Err(at) => counts.insert(at, (one.clone(), 1)),
    }
}

fn uncount<T: Ord>(counts: &mut Vec<(T, u32)>, one: &T) {
    if let Ok(at) = counts.binary_search_by(|(known, _)| known.cmp(one)) {
        counts[at].1 -= 1;
        if counts[at].1 == 0 {
            counts.remove(at);
        }
    }
}

/// Each text once, however many objects have it.
#[derive(Debug, Default)]
struct Texts {
    all: HashSet<Arc<str>>,
    /// Uses that have ended since the unused ones were forgotten.
    ended: usize,
}

impl Texts {
    /// As few as are never worth a look.
    const FEW: usize = 1024;

    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.all.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.all.insert(new.clone());
        new
    }

    /// Forgets those that nothing uses, when there may be as many as others: then each look pays for as many changes as it
    /// costs.
    fn end(&mut self, uses: usize) {
        self.ended += uses;
        if self.ended > self.all.len().max(Self::FEW) {
            self.all.retain(|text| Arc::strong_count(text) > 1);
            self.ended = 0;
        }
    }
}
