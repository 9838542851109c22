//! Each tool of skill.toml is a function from its input to its output, both JSON. `skill` is the world, as world.wit has it.

mod json;
mod skill;

use json::Json;

fn greet(input: &Json) -> Result<Json, String> {
    let name = input.text("name").ok_or("a name is needed")?;
    if name.trim().is_empty() {
        return Err("there is nobody to greet".into());
    }
    skill::log::write("info", &format!("greeting {name}"));
    Ok(Json::object([("greeting", Json::from(format!("Hello, {name}!")))]))
}

/// Input is JSON that fits the tool's `input_schema`; so must be what it returns. An error is told to whoever called.
pub fn run(tool: &str, input: &str) -> Result<String, String> {
    let input = Json::parse(input)?;
    let output = match tool {
        "greet" => greet(&input)?,
        _ => return Err(format!("there is no tool {tool}")),
    };
    Ok(output.to_string())
}
