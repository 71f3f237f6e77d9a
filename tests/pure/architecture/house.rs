//! All files together: whose code each path names, and what the table of rooms says about it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
};

use super::{
    rooms::{AT_THE_EDGES, EVERYWHERE, NEVER_IN_CORE, Room},
    source::{Import, Source, Written},
};

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// Something in a file of ours.
    Inside {
        file: String,
        /// The file's module itself, not anything in it.
        module: bool,
    },
    /// Something of another crate: its whole path.
    Outside(String),
}

/// A file names something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Use {
    pub file: String,
    pub target: Target,
    pub line: usize,
    /// `pub use` of what lies below: no import.
    pub passed_on: bool,
}

/// Something the table does not allow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Violation {
    /// No room has this file.
    NoRoom { file: String },
    /// No file is there for an entry of a room.
    NoFile { room: &'static str, entry: &'static str },
    /// A module that is not a file.
    InlineModule { file: String, module: String },
    /// A room that is not listed for this one.
    Room { file: String, line: usize, other: String, rooms: (&'static str, &'static str) },
    /// A crate, or a part of one, that is not listed for this room.
    Outside { file: String, line: usize, path: String, room: &'static str },
    /// A file that needs itself through others.
    Circle(Vec<String>),
}

impl Violation {
    /// The file and what it must not use, as an entry of the list of known violations has them.
    pub(super) fn key(&self) -> Option<(&str, &str)> {
        match self {
            Self::Room { file, other, .. } => Some((file, other)),
            Self::Outside { file, path, .. } => Some((file, crate_of(path))),
            _ => None,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom { file } => {
                write!(f, "src/{file} has no room: decide which one it is in, and add it to ROOMS")
            }
            Self::NoFile { room, entry } => {
                write!(f, "room `{room}` lists `{entry}`, and no file is there: remove the entry")
            }
            Self::InlineModule { file, module } => {
                write!(
                    f,
                    "src/{file}: module `{module}` is inside the file: give it a file of its own"
                )
            }
            Self::Room { file, line, other, rooms: (from, to) } => write!(
                f,
                "src/{file}:{line}: uses src/{other}, but room `{from}` may not import room `{to}`: pass the \
                 result in, move the code, or decide that it may, in ROOMS"
            ),
            Self::Outside { file, line, path, room } => write!(
                f,
                "src/{file}:{line}: uses `{path}`, which is not on the list of room `{room}`: do it in another \
                 room, or decide that it may, in ROOMS"
            ),
            Self::Circle(files) => write!(
                f,
                "files in a circle: src/{}: move what they share into a file of its own",
                files.join(" -> src/")
            ),
        }
    }
}

/// Every source file, by its path below `src`.
pub(super) struct House {
    sources: BTreeMap<String, Source>,
    /// Names of the crates that can be named.
    crates: BTreeSet<String>,
    /// Everything that every file names in other files and crates.
    uses: BTreeSet<Use>,
}

impl House {
    pub(super) fn new<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
        crates: impl IntoIterator<Item = String>,
    ) -> Self {
        let read = |(file, text): (&str, &str)| {
            let source = Source::read(text).unwrap_or_else(|error| panic!("src/{file}: {error}"));
            (file.to_owned(), source)
        };
        let standard = ["std", "core", "alloc"].map(str::to_owned);
        let mut house = Self {
            sources: files.into_iter().map(read).collect(),
            crates: crates.into_iter().chain(standard).collect(),
            uses: BTreeSet::new(),
        };
        let all = house.sources.iter().flat_map(|(file, source)| house.uses_of(file, source));
        house.uses = all.collect();
        house
    }

    fn uses_of(&self, file: &str, source: &Source) -> Vec<Use> {
        let named = |written: &Written, import: bool, public: bool| {
            let target = self.resolve(file, &written.segments, import, 0)?;
            let passed_on = public
                && matches!(&target, Target::Inside { file: other, .. } if is_below(other, file));
            Some(Use { file: file.to_owned(), target, line: written.line, passed_on })
        };
        let imports = source.imports.values();
        let imports = imports.filter_map(|(path, how)| named(path, true, *how == Import::Public));
        let globs = source.globs.iter().filter_map(|path| {
            let mut used = named(path, true, false)?;
            if let Target::Inside { module, .. } = &mut used.target {
                *module = false;
            }
            Some(used)
        });
        let paths = source.paths.iter().filter_map(|path| named(path, false, false));
        let others = |used: &Use| !matches!(&used.target, Target::Inside { file: other, .. } if other == file);
        imports.chain(globs).chain(paths).filter(others).collect()
    }

    /// What a path names that stands in `file`; nothing for what is local.
    fn resolve(&self, file: &str, path: &[String], import: bool, depth: usize) -> Option<Target> {
        assert!(depth < 32, "src/{file}: {path:?} leads to itself");
        let source = self.sources.get(file)?;
        let module = module(file);
        let (head, rest) = path.split_first()?;
        let inside = |segments: Vec<String>| self.inside(&segments, depth);
        match head.as_str() {
            "crate" => inside(rest.to_vec()),
            "self" => inside([&module, rest].concat()),
            "super" => {
                let up = path.iter().take_while(|segment| *segment == "super").count();
                let kept = module.len().saturating_sub(up);
                inside([&module[..kept], &path[up..]].concat())
            }
            "overdue" if file == "main.rs" => inside(rest.to_vec()),
            _ => {
                if let Some((target, _)) = source.imports.get(head)
                    && target.segments != path
                    && !(import && target.segments.first() == Some(head))
                {
                    let path = [&target.segments, rest].concat();
                    return self.resolve(file, &path, true, depth + 1);
                }
                // Names of fields and variables look like modules: those are named with something behind.
                if source.children.contains(head) && (import || !rest.is_empty()) {
                    return inside([&module, path].concat());
                }
                let crate_ = self.crates.contains(head) && !rest.is_empty();
                let unknown = import && !source.items.contains(head);
                (crate_ || unknown).then(|| Target::Outside(path.join("::")))
            }
        }
    }

    /// The file of an item, through whatever passes it on.
    fn inside(&self, segments: &[String], depth: usize) -> Option<Target> {
        let mut file = "lib.rs".to_owned();
        let mut rest = segments;
        while let Some((head, behind)) = rest.split_first() {
            let below = match file.as_str() {
                "lib.rs" => format!("{head}.rs"),
                parent => format!("{}/{head}.rs", parent.trim_end_matches(".rs")),
            };
            if !self.sources.contains_key(&below) {
                break;
            }
            (file, rest) = (below, behind);
        }
        if let Some(head) = rest.first()
            && let Some(source) = self.sources.get(&file)
            && !source.items.contains(head)
            && source.imports.contains_key(head)
        {
            return self.resolve(&file, rest, false, depth + 1);
        }
        Some(Target::Inside { file, module: rest.is_empty() })
    }

    /// Everything that `rooms` do not allow; `known` uses make no circle.
    pub(super) fn violations(&self, rooms: &[Room], known: &[(&str, &str)]) -> Vec<Violation> {
        let mut found = BTreeSet::new();
        found.extend(self.files_without_a_room(rooms));
        found.extend(self.entries_without_a_file(rooms));
        // The list of what tests use has the shape of the rooms.
        let sources = self.sources.iter().filter(|(file, _)| file.as_str() != "internals.rs");
        found.extend(sources.flat_map(|(file, source)| {
            let modules = source.inline_modules.iter().cloned();
            modules.map(|module| Violation::InlineModule { file: file.clone(), module })
        }));
        found.extend(self.uses.iter().filter_map(|used| refused(used, rooms)));
        let mut once = BTreeSet::new();
        found.retain(|violation| match violation.key() {
            Some((file, what)) => once.insert((file.to_owned(), what.to_owned())),
            None => true,
        });
        found.into_iter().chain(circles(&self.uses, known)).collect()
    }

    /// Rooms and crates that a room may use and does not.
    pub(super) fn unused(&self, rooms: &[Room]) -> Vec<String> {
        let mut unused = Vec::new();
        for room in rooms {
            let own =
                |used: &&Use| room_of(rooms, &used.file).is_some_and(|of| of.name == room.name);
            let targets: Vec<&Target> =
                self.uses.iter().filter(own).map(|used| &used.target).collect();
            let imports = |name: &str| {
                targets.iter().any(|target| {
                    matches!(target, Target::Inside { file, .. }
                        if room_of(rooms, file).is_some_and(|of| of.name == name))
                })
            };
            let names = |entry: &str| {
                let below = |path: &str| listed(&[entry], path);
                targets.iter().any(|target| matches!(target, Target::Outside(path) if below(path)))
            };
            let idle = room.imports.iter().filter(|name| !imports(name));
            let idle = idle.chain(room.uses.iter().filter(|entry| !names(entry)));
            unused.extend(idle.map(|entry| format!("`{}`: {entry}", room.name)));
        }
        unused
    }

    /// Whether `from` uses `to`, and `to` needs `from` in turn.
    pub(super) fn is_in_a_circle(&self, from: &str, to: &str) -> bool {
        let mut edges = edges(&self.uses, &[]);
        let Some((from, others)) = edges.remove_entry(from) else { return false };
        let Some(to) = others.get(to) else { return false };
        edges.insert(from, BTreeSet::from([*to]));
        circle_through(from, &edges).is_some()
    }

    fn files_without_a_room(&self, rooms: &[Room]) -> Vec<Violation> {
        let homeless = self.sources.keys().filter(|file| room_of(rooms, file).is_none());
        homeless.map(|file| Violation::NoRoom { file: file.clone() }).collect()
    }

    fn entries_without_a_file(&self, rooms: &[Room]) -> Vec<Violation> {
        let entries =
            rooms.iter().flat_map(|room| room.files.iter().map(|entry| (room.name, *entry)));
        let stale = entries.filter(|(_, entry)| !self.sources.keys().any(|file| fits(entry, file)));
        stale.map(|(room, entry)| Violation::NoFile { room, entry }).collect()
    }
}

/// `plan/diff.rs` is the module `plan::diff`.
fn module(file: &str) -> Vec<String> {
    match file {
        "lib.rs" | "main.rs" => Vec::new(),
        _ => file.trim_end_matches(".rs").split('/').map(str::to_owned).collect(),
    }
}

/// Whether a file is a module inside that of another one.
fn is_below(file: &str, parent: &str) -> bool {
    parent == "lib.rs" || file.starts_with(&format!("{}/", parent.trim_end_matches(".rs")))
}

fn fits(entry: &str, file: &str) -> bool {
    file == entry || (entry.ends_with('/') && file.starts_with(entry))
}

/// The room of a file: the longest entry that fits decides.
pub(super) fn room_of<'a>(rooms: &'a [Room], file: &str) -> Option<&'a Room> {
    let entries = rooms.iter().flat_map(|room| room.files.iter().map(move |entry| (entry, room)));
    let fitting = entries.filter(|(entry, _)| fits(entry, file));
    fitting.max_by_key(|(entry, _)| entry.len()).map(|(_, room)| room)
}

/// Whether a path is one of a list, or lies below one.
fn listed(list: &[&str], path: &str) -> bool {
    list.iter().any(|entry| {
        path.strip_prefix(entry).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    })
}

fn refused(used: &Use, rooms: &[Room]) -> Option<Violation> {
    let room = room_of(rooms, &used.file)?;
    let (file, line) = (used.file.clone(), used.line);
    match &used.target {
        Target::Inside { file: other, .. } => {
            let to = room_of(rooms, other)?;
            let allowed = room.name == to.name || room.imports.contains(&to.name);
            let rooms = (room.name, to.name);
            (!allowed).then(|| Violation::Room { file, line, other: other.clone(), rooms })
        }
        Target::Outside(path) => {
            let at_edges = if room.core { &[] } else { AT_THE_EDGES };
            let may = [EVERYWHERE, at_edges, room.uses].concat();
            let allowed = listed(&may, path) && !(room.core && listed(NEVER_IN_CORE, path));
            // `use std::time;` imports a module: what is used of it is looked at where it is used.
            let opens = may.iter().any(|entry| entry.starts_with(&format!("{path}::")));
            let path = path.clone();
            (!allowed && !opens).then_some(Violation::Outside { file, line, path, room: room.name })
        }
    }
}

/// The crate of a path, or the part of `std`.
fn crate_of(path: &str) -> &str {
    let segments = if path.starts_with("std::") { 2 } else { 1 };
    path.match_indices("::").nth(segments - 1).map_or(path, |(end, _)| &path[..end])
}

/// Which file needs which, apart from `known` uses.
fn edges<'a>(
    uses: &'a BTreeSet<Use>,
    known: &[(&str, &str)],
) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for used in uses {
        if let Target::Inside { file: other, module: false } = &used.target
            && !used.passed_on
            && !known.contains(&(used.file.as_str(), other.as_str()))
        {
            edges.entry(&used.file).or_default().insert(other);
        }
    }
    edges
}

/// Files that need themselves: for each group one of its shortest circles.
fn circles(uses: &BTreeSet<Use>, known: &[(&str, &str)]) -> Vec<Violation> {
    let edges = edges(uses, known);
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for start in edges.keys() {
        if seen.contains(start) {
            continue;
        }
        if let Some(circle) = circle_through(start, &edges) {
            seen.extend(circle.iter().copied());
            found.push(Violation::Circle(circle.iter().map(|file| (*file).to_owned()).collect()));
        }
    }
    found
}

/// The shortest way from a file back to it.
fn circle_through<'a>(
    start: &'a str,
    edges: &BTreeMap<&'a str, BTreeSet<&'a str>>,
) -> Option<Vec<&'a str>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut next = VecDeque::from([start]);
    while let Some(file) = next.pop_front() {
        for other in edges.get(file).into_iter().flatten() {
            if *other == start {
                let mut circle = vec![start, file];
                while let Some(before) = came_from.get(circle[circle.len() - 1]) {
                    circle.push(before);
                }
                circle.reverse();
                return Some(circle);
            }
            if !came_from.contains_key(other) {
                came_from.insert(other, file);
                next.push_back(other);
            }
        }
    }
    None
}
