//! S3's documents: small trees, changed in places and otherwise written as they were read.

use std::borrow::Cow;

use quick_xml::events::{BytesText, Event};
use quick_xml::{Reader, Writer};

use crate::failed::Failed;

/// Deeper than any document of S3's; a deeper one is no answer to anything.
const DEPTH: usize = 32;

/// An element with everything in it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Element {
    pub(crate) name: String,
    /// The start tag as it was: namespaces and attributes.
    tag: Vec<u8>,
    pub(crate) children: Vec<Node>,
}

/// What an element contains.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Element(Element),
    /// Unescaped.
    Text(String),
}

/// The text of the first element `name`, wherever it stands.
pub(crate) fn text_of(document: &[u8], name: &str) -> Option<String> {
    let root = Element::parse(document).ok()?;
    root.find(name).map(Element::text)
}

/// As it may stand between tags.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    quick_xml::escape::escape(text)
}

impl Element {
    /// Reads a document.
    pub(crate) fn parse(document: &[u8]) -> Result<Self, Failed> {
        let malformed =
            || Failed::new(s3s::S3ErrorCode::MalformedXML, "the XML is not well-formed");
        let mut reader = Reader::from_reader(document);
        let mut open: Vec<Self> = Vec::new();
        loop {
            let event = reader.read_event().map_err(|_| malformed())?;
            let done = match event {
                Event::Start(tag) => {
                    if open.len() == DEPTH {
                        return Err(malformed());
                    }
                    open.push(Self::of_tag(&tag));
                    None
                }
                Event::Empty(tag) => Some(Self::of_tag(&tag)),
                Event::End(_) => Some(open.pop().ok_or_else(malformed)?),
                Event::Text(text) => {
                    if let Some(parent) = open.last_mut() {
                        let text = text.decode().map_err(|_| malformed())?;
                        parent.push_text(&text);
                    }
                    None
                }
                Event::CData(text) => {
                    if let Some(parent) = open.last_mut() {
                        let text = text.decode().map_err(|_| malformed())?;
                        parent.push_text(&text);
                    }
                    None
                }
                Event::GeneralRef(reference) => {
                    let name = reference.decode().map_err(|_| malformed())?;
                    let source = format!("&{name};");
                    let text = quick_xml::escape::unescape(&source).map_err(|_| malformed())?;
                    if let Some(parent) = open.last_mut() {
                        parent.push_text(&text);
                    }
                    None
                }
                Event::Eof => return Err(malformed()),
                Event::Decl(_) | Event::Comment(_) | Event::PI(_) | Event::DocType(_) => None,
            };
            if let Some(element) = done {
                match open.last_mut() {
                    Some(parent) => parent.children.push(Node::Element(element)),
                    None => return Ok(element),
                }
            }
        }
    }

    /// Writes it as a document.
    pub(crate) fn document(&self) -> Result<String, Failed> {
        let mut writer = Writer::new(Vec::new());
        let broken = |_| Failed::internal("XML cannot be written");
        let declaration = quick_xml::events::BytesDecl::new("1.0", Some("UTF-8"), None);
        writer
            .write_event(Event::Decl(declaration))
            .map_err(broken)?;
        self.write(&mut writer).map_err(broken)?;
        String::from_utf8(writer.into_inner()).map_err(|_| Failed::internal("XML is not UTF-8"))
    }

    /// The first element of this name, this one included, from the outside in.
    pub(crate) fn find(&self, name: &str) -> Option<&Self> {
        if self.name == name {
            return Some(self);
        }
        self.elements().find_map(|child| child.find(name))
    }

    /// The text of the child `name`.
    pub(crate) fn child(&self, name: &str) -> Option<String> {
        self.elements()
            .find(|child| child.name == name)
            .map(Self::text)
    }

    /// Its own text.
    pub(crate) fn text(&self) -> String {
        self.children
            .iter()
            .filter_map(|node| match node {
                Node::Text(text) => Some(text.as_str()),
                Node::Element(_) => None,
            })
            .collect()
    }

    pub(crate) fn elements(&self) -> impl Iterator<Item = &Self> {
        self.children.iter().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }

    pub(crate) fn elements_mut(&mut self) -> impl Iterator<Item = &mut Self> {
        self.children.iter_mut().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }

    /// Replaces the text of the child `name`, where there is one.
    pub(crate) fn set(&mut self, name: &str, text: impl Into<String>) {
        if let Some(child) = self.elements_mut().find(|child| child.name == name) {
            child.children = vec![Node::Text(text.into())];
        }
    }

    fn of_tag(tag: &quick_xml::events::BytesStart<'_>) -> Self {
        Self {
            name: String::from_utf8_lossy(tag.local_name().as_ref()).into_owned(),
            tag: tag.to_vec(),
            children: Vec::new(),
        }
    }

    fn push_text(&mut self, text: &str) {
        match self.children.last_mut() {
            Some(Node::Text(before)) => before.push_str(text),
            _ => self.children.push(Node::Text(text.to_owned())),
        }
    }

    fn write(&self, writer: &mut Writer<Vec<u8>>) -> std::io::Result<()> {
        let tag = String::from_utf8_lossy(&self.tag).into_owned();
        let name_length = tag
            .find(|letter: char| letter.is_ascii_whitespace())
            .unwrap_or(tag.len());
        let start = quick_xml::events::BytesStart::from_content(tag.as_str(), name_length);
        if self.children.is_empty() {
            return writer.write_event(Event::Empty(start));
        }
        writer.write_event(Event::Start(start.borrow()))?;
        for child in &self.children {
            match child {
                Node::Element(element) => element.write(writer)?,
                Node::Text(text) => writer.write_event(Event::Text(BytesText::new(text)))?,
            }
        }
        writer.write_event(Event::End(start.to_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_document_is_written_as_it_was_read() {
        let text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
            <List xmlns=\"http://s3/\"><Name>a&amp;b</Name><Prefix/><Owner xsi:type=\"x\"><ID>1</ID></Owner></List>";
        let mut root = Element::parse(text.as_bytes()).unwrap();
        assert_eq!(root.document().unwrap(), text);
        assert_eq!(root.child("Name").unwrap(), "a&b");
        root.set("Name", "<c>");
        assert!(root.document().unwrap().contains("<Name>&lt;c&gt;</Name>"));
        assert_eq!(text_of(text.as_bytes(), "ID").unwrap(), "1");
    }

    proptest! {
        #[test]
        fn hostile_documents_are_read_or_refused(bytes: Vec<u8>, text in "[<>/a&;!\\[\\]\" =?-]{0,60}") {
            let _ = Element::parse(&bytes);
            let _ = Element::parse(text.as_bytes());
        }
    }
}
