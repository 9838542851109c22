//! Each tool of skill.toml is a function from its input to its output, both JSON. The module
//! `skill` has the functions of the host, which world.wit documents.

mod json;
mod skill;

use json::Json;

fn greet(input: &Json) -> Result<Json, String> {
    let name = input.text("name").ok_or("the name is missing")?;
    if name.trim().is_empty() {
        return Err("there is nobody to greet".into());
    }
    skill::log::write("info", &format!("greeting {name}"));
    Ok(Json::object([("greeting", Json::from(format!("Hello, {name}!")))]))
}

/// `input` is JSON that is valid for the tool's `input_schema`; the output must be valid for its
/// `output_schema`. The agent gets the message of an error.
pub fn run(tool: &str, input: &str) -> Result<String, String> {
    let input = Json::parse(input)?;
    let output = match tool {
        "greet" => greet(&input)?,
        _ => return Err(format!("there is no tool {tool}")),
    };
    Ok(output.to_string())
}
