//! What a layout is made of: rectangles, texts, boxes, frames and arrows, in pixels.

use crate::graph::{Flow, Kind, measure};

/// A rectangle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rect {
    /// Left.
    pub x: i32,
    /// Top.
    pub y: i32,
    /// To the right.
    pub width: i32,
    /// Down.
    pub height: i32,
}

impl Rect {
    /// The first pixel to the right of it.
    #[must_use]
    pub const fn right(&self) -> i32 {
        self.x + self.width
    }

    /// The first pixel below it.
    #[must_use]
    pub const fn bottom(&self) -> i32 {
        self.y + self.height
    }

    /// Half way down and across.
    #[must_use]
    pub const fn middle(&self) -> (i32, i32) {
        (self.x + self.width / 2, self.y + self.height / 2)
    }
}

/// One line of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Left end, middle or right end, by `anchor`.
    pub x: i32,
    /// Base line.
    pub y: i32,
    /// What it says.
    pub text: String,
    /// How it looks.
    pub face: Face,
    /// Which end `x` is.
    pub anchor: Anchor,
}

/// Which end of a text its place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The left end.
    Start,
    /// The middle.
    Middle,
    /// The right end.
    End,
}

/// How a text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// The picture's heading.
    Heading,
    /// The line under it.
    Subheading,
    /// Of a box or a frame, in words.
    Title,
    /// Of a queue or exchange.
    Name,
    /// Of a delay queue, beside its level.
    SmallName,
    /// Everything else in a box.
    Detail,
    /// On an arrow.
    Label,
    /// Messages.
    Count,
}

impl Face {
    /// Font size in pixels.
    #[must_use]
    pub const fn size(self) -> i32 {
        match self {
            Self::Heading => 20,
            Self::Title | Self::Name | Self::Subheading => 13,
            Self::SmallName | Self::Detail | Self::Label | Self::Count => 12,
        }
    }

    /// Width of `text` in it, in pixels; in most fonts it is less.
    #[must_use]
    pub fn width(self, text: &str) -> i32 {
        match self {
            Self::Name | Self::SmallName => measure::mono(text, self.size()),
            Self::Heading | Self::Title | Self::Count => measure::sans_bold(text, self.size()),
            Self::Subheading | Self::Detail | Self::Label => measure::sans(text, self.size()),
        }
    }
}

impl Text {
    /// The space it takes: from the top of a capital to the end of a tail.
    #[must_use]
    pub fn rect(&self) -> Rect {
        let (size, width) = (self.face.size(), self.face.width(&self.text));
        let x = match self.anchor {
            Anchor::Start => self.x,
            Anchor::Middle => self.x - width / 2,
            Anchor::End => self.x - width,
        };
        Rect { x, y: self.y - size * 3 / 4, width, height: size }
    }
}

/// A placed frame.
#[derive(Clone, Debug)]
pub struct PlacedGroup {
    /// The group's.
    pub id: String,
    /// The frame.
    pub rect: Rect,
    /// Its heading.
    pub texts: Vec<Text>,
}

/// A placed box.
#[derive(Clone, Debug)]
pub struct PlacedNode {
    /// The node's.
    pub id: String,
    /// What it is.
    pub kind: Kind,
    /// Out of use.
    pub retired: bool,
    /// The box.
    pub rect: Rect,
    /// What is in it.
    pub texts: Vec<Text>,
    /// All of it in words, for those who do not see the picture.
    pub title: String,
}

/// A placed arrow: straight lines between points, horizontal and vertical.
#[derive(Clone, Debug)]
pub struct PlacedEdge {
    /// Why messages take it.
    pub flow: Flow,
    /// From its tail to its head.
    pub points: Vec<(i32, i32)>,
    /// Whether it ends on another arrow.
    pub joins: bool,
    /// What takes it.
    pub label: Option<Text>,
    /// From where to where, in words.
    pub title: String,
}
