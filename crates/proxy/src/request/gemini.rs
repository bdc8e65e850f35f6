//! The messages of a request to Gemini.

use serde_json::value::RawValue;
use ttsr::rule::ToolOutcome;

use super::content::{ContentKind, ContentPath, DEPTH, MOST, has_other_spelling};
use super::read::{
    BodyReader, ContentForm, HistoryForm, ITEM, PartRole, RequestItem, RequestPart, RequestText,
    either, outcome_of,
};
use crate::json_spans::{elements, member, members, span, string};

impl<'b> BodyReader<'b> {
    /// Reads the history of Gemini. Lists of one element may be written without the list.
    pub(super) fn contents(&mut self, top: &[(String, &'b RawValue)]) -> Option<HistoryForm> {
        let contents = member(top, "contents")?;
        let range = span(self.body, contents);
        let (list, form) = match elements(contents) {
            Some(list) => (list, HistoryForm::List(range)),
            None => (vec![contents], HistoryForm::One(range)),
        };
        (list.len() <= MOST).then_some(())?;
        for (number, content) in list.into_iter().enumerate() {
            self.gemini_item(number, content)?;
        }
        Some(form)
    }

    fn gemini_item(&mut self, number: usize, content: &'b RawValue) -> Option<()> {
        self.items.push(RequestItem {
            range: span(self.body, content),
            content: None,
        });
        self.content.item = number;
        let known = members(content)?;
        if has_other_spelling(&known, &ITEM) {
            return None;
        }
        match member(&known, "role").and_then(string).as_deref() {
            Some("model") => {
                self.push_silent(number, PartRole::Assistant)?;
                return self.gemini_outputs(number, &known);
            }
            None | Some("user" | "function" | "tool") => {}
            Some(_) => return None,
        }
        let mut texts = Vec::new();
        let mut has_output = false;
        let parts = member(&known, "parts").filter(|parts| parts.get() != "null");
        if let Some(parts) = parts {
            let range = span(self.body, parts);
            let (list, form) = match elements(parts) {
                Some(list) => {
                    let is_empty = list.is_empty();
                    (list, ContentForm::List { range, is_empty })
                }
                None => (vec![parts], ContentForm::One(range)),
            };
            for part in list {
                has_output |= self.gemini_part(number, &members(part)?, &mut texts)?;
            }
            if !has_output {
                // A provider counts the results of tools in a message, so that nothing is added to it.
                self.items[number].content = Some(form);
            }
        }
        let path = self.item_path();
        self.content
            .read_others(&known, &["parts"], &path, &mut texts)?;
        self.push_texts(number, texts)
    }

    /// Reads the results of tools in a message of the model, where some clients write them. All else there is of the model.
    fn gemini_outputs(&mut self, number: usize, content: &[(String, &'b RawValue)]) -> Option<()> {
        let item_path = self.item_path();
        let list = item_path.member("parts");
        let path = ContentPath::Element(&list);
        let parts = member(content, "parts").filter(|parts| parts.get().starts_with('['));
        let parts = match parts {
            Some(parts) => elements(parts)?,
            None => Vec::new(),
        };
        for part in parts {
            let part = members(part)?;
            if let Some(output) = either(&part, "functionResponse", "function_response")? {
                self.gemini_output(number, output, &path.member("functionResponse"))?;
            }
        }
        Some(())
    }

    /// Reads one part of a message of the user in Gemini. Returns true if it has the result of a tool.
    fn gemini_part(
        &mut self,
        number: usize,
        part: &[(String, &'b RawValue)],
        texts: &mut Vec<RequestText>,
    ) -> Option<bool> {
        let item_path = self.item_path();
        let list = item_path.member("parts");
        let path = ContentPath::Element(&list);
        let mut has_output = false;
        if let Some(text) = member(part, "text").filter(|text| text.get() != "null") {
            let text_path = path.member("text");
            self.content
                .read(text, (ContentKind::Free, 1), &text_path, texts)?;
        }
        if let Some(output) = either(part, "functionResponse", "function_response")? {
            has_output = true;
            self.gemini_output(number, output, &path.member("functionResponse"))?;
        }
        if let Some(result) = either(part, "codeExecutionResult", "code_execution_result")? {
            has_output = true;
            let path = path.member("codeExecutionResult");
            self.push_output(
                number,
                (None, ToolOutcome::Ok),
                &members(result)?,
                ("output", &path),
            )?;
        }
        let read = [
            "text",
            "functionResponse",
            "function_response",
            "codeExecutionResult",
            "code_execution_result",
        ];
        self.content.read_others(part, &read, &path, texts)?;
        Some(has_output)
    }

    /// Reads the result of a tool in Gemini: all strings of an object whose form the tool chooses.
    fn gemini_output(
        &mut self,
        item: usize,
        output: &'b RawValue,
        path: &ContentPath<'_>,
    ) -> Option<()> {
        let known = members(output)?;
        let response = member(&known, "response");
        let mut texts = Vec::new();
        if let Some(response) = response {
            let path = path.member("response");
            self.content
                .read(response, (ContentKind::Free, DEPTH), &path, &mut texts)?;
        }
        self.content
            .read_others(&known, &["response"], path, &mut texts)?;
        let is_error = response.and_then(members).is_some_and(|response| {
            member(&response, "error").is_some_and(|error| error.get() != "null")
        });
        self.parts.push(RequestPart {
            role: PartRole::ToolOutput,
            tool: member(&known, "name").and_then(string),
            outcome: outcome_of(is_error),
            texts,
            item,
        });
        Some(())
    }
}
