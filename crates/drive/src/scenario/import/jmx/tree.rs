//! A test plan as JMeter stores it: elements, each followed by the `hashTree` of what stands below it.

use roxmltree::{Document, Node as Xml};

/// An element with its properties, and what stands below it.
#[derive(Clone, Copy)]
pub struct Element<'d> {
    xml: Xml<'d, 'd>,
    below: Option<Xml<'d, 'd>>,
}

/// The elements of a file. The error begins with a line.
pub fn elements<'d>(document: &'d Document<'d>) -> Result<Vec<Element<'d>>, String> {
    let root = document.root_element();
    if root.tag_name().name() != "jmeterTestPlan" {
        return Err(
            "1: this is XML, and no test plan of JMeter: it does not begin with <jmeterTestPlan>".to_owned()
        );
    }
    Ok(root.children().find(|node| node.has_tag_name("hashTree")).map_or_else(Vec::new, children))
}

fn children<'d>(tree: Xml<'d, 'd>) -> Vec<Element<'d>> {
    let mut found: Vec<Element<'d>> = Vec::new();
    for xml in tree.children().filter(Xml::is_element) {
        if xml.has_tag_name("hashTree") {
            if let Some(last) = found.last_mut() {
                last.below = Some(xml);
            }
        } else {
            found.push(Element { xml, below: None });
        }
    }
    // Disabled elements are as if they were not there, with all below them.
    found.retain(|element| element.xml.attribute("enabled") != Some("false"));
    found
}

impl<'d> Element<'d> {
    /// What kind it is: the name of JMeter's class, without its package.
    pub fn kind(&self) -> &'d str {
        let class = self.xml.attribute("testclass").unwrap_or_else(|| self.xml.tag_name().name());
        class.rsplit('.').next().unwrap_or(class)
    }

    /// The class of its window: elements of one kind may differ by it.
    pub fn window(&self) -> &'d str {
        self.xml.attribute("guiclass").unwrap_or_default()
    }

    /// Its name.
    pub fn name(&self) -> &'d str {
        self.xml.attribute("testname").unwrap_or_default()
    }

    /// What stands below it, without what is disabled.
    pub fn children(&self) -> Vec<Element<'d>> {
        self.below.map_or_else(Vec::new, children)
    }

    /// The line that it begins on.
    pub fn line(&self) -> u32 {
        self.xml.document().text_pos_at(self.xml.range().start).row
    }

    /// A message about it.
    pub fn fault(&self, text: impl std::fmt::Display) -> String {
        format!("{}: {} \"{}\": {text}", self.line(), self.kind(), self.name())
    }

    /// A property as text; empty if it is not there.
    pub fn text(&self, name: &str) -> &'d str {
        self.property(name).and_then(|node| node.text()).unwrap_or_default().trim()
    }

    /// A property that is true.
    pub fn is(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// The members of a list, or of a list inside of a property.
    pub fn list(&self, name: &str) -> Vec<Element<'d>> {
        let found = self
            .xml
            .descendants()
            .find(|node| node.attribute("name") == Some(name) && node.has_tag_name("collectionProp"));
        let members = found.into_iter().flat_map(|list| list.children().filter(Xml::is_element));
        members.map(|xml| Element { xml, below: None }).collect()
    }

    /// Its own text: of a member of a list.
    pub fn own_text(&self) -> &'d str {
        self.xml.text().unwrap_or_default()
    }

    /// The texts in it, one behind the other: a row of a table.
    pub fn texts(&self) -> Vec<&'d str> {
        self.xml.children().filter(Xml::is_element).map(|node| node.text().unwrap_or_default()).collect()
    }

    /// The property of this name, also inside of another one: names have their owner's name in front.
    fn property(&self, name: &str) -> Option<Xml<'d, 'd>> {
        let is_it = |node: &Xml<'d, 'd>| {
            node.attribute("name") == Some(name) && node.tag_name().name().ends_with("Prop")
        };
        self.xml.descendants().find(is_it)
    }

    /// The value of a `FloatProperty`, which stores its name beside it.
    pub fn float(&self, name: &str) -> Option<&'d str> {
        let is_it = |node: &Xml<'d, 'd>| {
            node.has_tag_name("FloatProperty")
                && node.children().any(|inner| inner.has_tag_name("name") && inner.text() == Some(name))
        };
        let found = self.xml.descendants().find(is_it)?;
        found.children().find(|inner| inner.has_tag_name("value"))?.text()
    }
}
