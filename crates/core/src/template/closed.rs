//! The part of Jinja that templates may use, closed: a template is read, checked, and rewritten with each
//! operator behind a filter that draws on the budget of its rendering.
//!
//! The engine has no bounds for its operators (`~`, `+`, `*`, comparisons, slices), nor for what blocks capture. So
//! blocks that capture are refused when the template is read, `+ - * / // % **` are left with numbers, and the operands
//! of the others pass a filter (`filters.rs`). What a later version of the engine adds is refused here until a bound
//! exists.

use minijinja::Value;
use minijinja::machinery::ast::{
    BinOp, BinOpKind, CallArg, CompareOpKind, Expr, ForLoop, Stmt, UnaryOpKind, WithBlock,
};
use minijinja::value::ValueKind;

use super::arguments::{check_filter, check_range, check_test};
use super::filters::{CHARGED, CONCAT, NUMBER, has_filter, has_test};

/// The template with its operators bounded; the error says what it may not use, and where.
pub(crate) fn closed(template: &Stmt<'_>) -> Result<String, String> {
    let mut writer = Writer { text: String::new(), line: 1, set: Vec::new(), loops_n: 0 };
    writer.statement(template)?;
    Ok(writer.text)
}

struct Writer {
    text: String,
    /// Line that is being written, so that errors name the line of the original.
    line: u16,
    /// Names that got a value, each with the number of loops around that.
    set: Vec<(String, usize)>,
    /// Number of loops around what is being written.
    loops_n: usize,
}

type Written = Result<(), String>;

/// A part of what is written.
trait Part {
    fn write_to(&self, writer: &mut Writer) -> Written;
}

impl Part for &str {
    fn write_to(&self, writer: &mut Writer) -> Written {
        writer.put(self);
        Ok(())
    }
}

impl Part for Expr<'_> {
    fn write_to(&self, writer: &mut Writer) -> Written {
        writer.expression(self)
    }
}

impl Part for Option<Expr<'_>> {
    fn write_to(&self, writer: &mut Writer) -> Written {
        self.as_ref().map_or(Ok(()), |value| writer.expression(value))
    }
}

impl Part for Vec<Stmt<'_>> {
    fn write_to(&self, writer: &mut Writer) -> Written {
        self.iter().try_for_each(|one| writer.statement(one))
    }
}

/// A value through a filter.
struct Through<'e>(&'e Expr<'e>, &'static str);

impl Part for Through<'_> {
    fn write_to(&self, writer: &mut Writer) -> Written {
        writer.write(&[&"(", self.0, &"|", &self.1, &")"])
    }
}

/// What stands behind `{% else %}`, if anything does.
struct Otherwise<'e>(&'e Vec<Stmt<'e>>);

impl Part for Otherwise<'_> {
    fn write_to(&self, writer: &mut Writer) -> Written {
        writer.write(&[&if self.0.is_empty() { "" } else { "{% else %}" }, self.0])
    }
}

impl Writer {
    fn put(&mut self, text: &str) {
        let lines = text.bytes().filter(|byte| *byte == b'\n').count();
        self.line = self.line.saturating_add(u16::try_from(lines).unwrap_or(u16::MAX));
        self.text.push_str(text);
    }

    fn write(&mut self, parts: &[&dyn Part]) -> Written {
        parts.iter().try_for_each(|part| part.write_to(self))
    }

    /// Begins a tag that stood in this line.
    fn tag(&mut self, begin: &str, line: u16) {
        self.put(begin);
        while self.line < line {
            self.put("\n");
        }
    }

    fn statement(&mut self, statement: &Stmt<'_>) -> Written {
        match statement {
            Stmt::Template(template) => template.children.write_to(self),
            Stmt::EmitRaw(raw) => self.raw(raw.raw, raw.span().start_line),
            Stmt::EmitExpr(emit) => {
                self.tag("{{ ", emit.span().start_line);
                self.write(&[&emit.expr, &" }}"])
            }
            Stmt::ForLoop(each) if each.recursive => {
                let line = each.span().start_line;
                Err(refused("a recursive loop", line, "write one loop inside of the other"))
            }
            Stmt::ForLoop(each) => self.each(each, each.span().start_line),
            Stmt::IfCond(condition) => {
                self.tag("{% if ", condition.span().start_line);
                let otherwise = Otherwise(&condition.false_body);
                self.write(&[&condition.expr, &" %}", &condition.true_body, &otherwise, &"{% endif %}"])
            }
            Stmt::WithBlock(with) => self.with(with, with.span().start_line),
            Stmt::Set(set) => {
                self.lasts(&set.target)?;
                self.tag("{% set ", set.span().start_line);
                self.target(&set.target)?;
                self.write(&[&" = ", &set.expr, &" %}"])
            }
            Stmt::SetBlock(block) => {
                let remedy = "write {% set name = value ~ value %}";
                Err(refused("`{% set %}` without `=`", block.span().start_line, remedy))
            }
            Stmt::FilterBlock(block) => {
                let remedy = "write the filter at each value: {{ value|upper }}";
                Err(refused("`{% filter %}`", block.span().start_line, remedy))
            }
            Stmt::AutoEscape(block) => {
                let remedy = "the content type says how values are written";
                Err(refused("`{% autoescape %}`", block.span().start_line, remedy))
            }
            Stmt::Do(call) => Err(refused("`{% do %}`", call.span().start_line, "remove it")),
        }
    }

    /// Text outside of tags.
    fn raw(&mut self, text: &str, line: u16) -> Written {
        if text.contains("endraw") {
            return Err(refused("`endraw` in a text", line, "write it otherwise"));
        }
        let (begin, end) = if text.contains('{') { ("{% raw %}", "{% endraw %}") } else { ("", "") };
        self.write(&[&begin, &text, &end])
    }

    fn each(&mut self, each: &ForLoop<'_>, line: u16) -> Written {
        self.tag("{% for ", line);
        self.target(&each.target)?;
        let before_condition = if each.filter_expr.is_some() { " if " } else { "" };
        self.write(&[&" in ", &each.iter, &before_condition, &each.filter_expr, &" %}"])?;
        self.loops_n += 1;
        each.body.write_to(self)?;
        self.set.retain(|(_, loops_n)| *loops_n < self.loops_n);
        self.loops_n -= 1;
        self.write(&[&Otherwise(&each.else_body), &"{% endfor %}"])
    }

    fn with(&mut self, with: &WithBlock<'_>, line: u16) -> Written {
        self.tag("{% with ", line);
        for (n, (target, value)) in with.assignments.iter().enumerate() {
            self.put(if n > 0 { ", " } else { "" });
            self.target(target)?;
            self.write(&[&" = ", value])?;
        }
        self.write(&[&" %}", &with.body, &"{% endwith %}"])
    }

    /// Refuses a value that would be gone after each round of a loop, though its name was given one before: a total
    /// that is counted so is what it was at first.
    fn lasts(&mut self, target: &Expr<'_>) -> Written {
        let Expr::Var(name) = target else { return Ok(()) };
        if self.set.iter().any(|(one, loops_n)| one == name.id && *loops_n < self.loops_n) {
            let what = format!("`{{% set {} %}}` in a loop, which lasts for one round,", name.id);
            let remedy = "write a total as {{ payload.lines|sum(attribute=\"amount\") }}";
            return Err(refused(&what, line(target), remedy));
        }
        self.set.push((name.id.to_owned(), self.loops_n));
        Ok(())
    }

    /// A name, or several of them, that get a value.
    fn target(&mut self, target: &Expr<'_>) -> Written {
        match target {
            Expr::Var(name) => self.put(name.id),
            Expr::List(names) => {
                self.put("(");
                for name in &names.items {
                    self.target(name)?;
                    self.put(",");
                }
                self.put(")");
            }
            other => {
                let remedy = "give a value to a name: {% set name = value %}";
                return Err(refused("a value for something else than a name", line(other), remedy));
            }
        }
        Ok(())
    }

    fn expression(&mut self, expression: &Expr<'_>) -> Written {
        match expression {
            Expr::Var(name) => self.write(&[&name.id]),
            Expr::Const(value) => self.constant(&value.value, line(expression)),
            Expr::GetAttr(get) => self.write(&[&get.expr, &".", &get.name]),
            Expr::GetItem(get) => self.write(&[&get.expr, &"[", &get.subscript_expr, &"]"]),
            Expr::Slice(slice) => {
                self.write(&[&Through(&slice.expr, CHARGED), &"[", &slice.start, &":", &slice.stop])?;
                self.write(&[&":", &slice.step, &"]"])
            }
            Expr::UnaryOp(operation) => match operation.op {
                UnaryOpKind::Not => self.write(&[&"(not ", &operation.expr, &")"]),
                UnaryOpKind::Neg => self.write(&[&"(-", &Through(&operation.expr, NUMBER), &")"]),
            },
            Expr::BinOp(operation) => self.operation((expression, operation)),
            Expr::Compare(chain) => {
                self.write(&[&"(", &Through(&chain.expr, CHARGED)])?;
                for next in &chain.ops {
                    self.write(&[&comparison(next.op), &Through(&next.expr, CHARGED)])?;
                }
                self.write(&[&")"])
            }
            Expr::IfExpr(choice) => {
                self.write(&[&"(", &choice.true_expr, &" if ", &choice.test_expr])?;
                let before_other = if choice.false_expr.is_some() { " else " } else { "" };
                self.write(&[&before_other, &choice.false_expr, &")"])
            }
            Expr::Filter(filter) => {
                if !has_filter(filter.name) {
                    return Err(unknown("filter", filter.name, line(expression)));
                }
                check_filter(filter.name, &filter.args, line(expression))?;
                self.write(&[&"(", &filter.expr, &"|", &filter.name])?;
                self.arguments(&filter.args)?;
                self.write(&[&")"])
            }
            Expr::Test(test) => {
                if !has_test(test.name) {
                    return Err(unknown("test", test.name, line(expression)));
                }
                check_test(test.name, &test.args, line(expression))?;
                self.write(&[&"(", &test.expr, &" is ", &test.name])?;
                self.arguments(&test.args)?;
                self.write(&[&")"])
            }
            Expr::Call(call) => {
                match &call.expr {
                    Expr::Var(name) if name.id == "range" => check_range(&call.args, line(expression))?,
                    Expr::Var(name) => return Err(unknown("function", name.id, line(expression))),
                    other => return Err(refused("a call of a value", line(other), "use a filter")),
                }
                self.put("range");
                self.arguments(&call.args)
            }
            Expr::List(list) => self.listed("[", &list.items, "]"),
            Expr::Tuple(tuple) => self.listed("(", &tuple.items, ",)"),
            Expr::Map(map) => {
                self.put("{");
                for (n, (key, value)) in map.keys.iter().zip(&map.values).enumerate() {
                    let before = if n > 0 { ", " } else { "" };
                    self.write(&[&before, &Through(key, CHARGED), &": ", value])?;
                }
                self.write(&[&"}"])
            }
        }
    }

    fn operation(&mut self, (expression, operation): (&Expr<'_>, &BinOp<'_>)) -> Written {
        let (left, right) = (&operation.left, &operation.right);
        match (operation.op, operator(operation.op)) {
            (BinOpKind::Concat, _) => {
                self.put("([");
                self.joined(expression)?;
                self.write(&[&"]|", &CONCAT, &")"])
            }
            (BinOpKind::ScAnd | BinOpKind::ScOr, sign) => self.write(&[&"(", left, &sign, right, &")"]),
            (kind, sign) => {
                let filter = if is_calculation(kind) { NUMBER } else { CHARGED };
                self.write(&[&"(", &Through(left, filter), &sign, &Through(right, filter), &")"])
            }
        }
    }

    fn listed(&mut self, begin: &str, items: &[Expr<'_>], end: &str) -> Written {
        self.put(begin);
        for (n, item) in items.iter().enumerate() {
            self.write(&[&if n > 0 { ", " } else { "" }, item])?;
        }
        self.put(if items.is_empty() { end.trim_start_matches(',') } else { end });
        Ok(())
    }

    /// The operands of `a ~ b ~ c`, as entries of a list.
    fn joined(&mut self, expression: &Expr<'_>) -> Written {
        match expression {
            Expr::BinOp(operation) if matches!(operation.op, BinOpKind::Concat) => {
                self.joined(&operation.left)?;
                self.write(&[&", ", &operation.right])
            }
            other => self.expression(other),
        }
    }

    fn arguments(&mut self, all: &[CallArg<'_>]) -> Written {
        if all.is_empty() {
            return Ok(());
        }
        self.put("(");
        for (n, argument) in all.iter().enumerate() {
            self.put(if n > 0 { ", " } else { "" });
            match argument {
                CallArg::Pos(value) => self.expression(value)?,
                CallArg::Kwarg(name, value) => self.write(&[name, &"=", value])?,
                CallArg::PosSplat(value) | CallArg::KwargSplat(value) => {
                    return Err(refused("`*` before an argument", line(value), "write the arguments"));
                }
            }
        }
        self.put(")");
        Ok(())
    }

    fn constant(&mut self, value: &Value, line: u16) -> Written {
        match (value.as_str(), value.kind()) {
            (Some(text), _) => self.put(&serde_json::Value::from(text).to_string()),
            (None, ValueKind::None) => self.put("none"),
            (None, ValueKind::Bool) => self.put(if value.is_true() { "true" } else { "false" }),
            (None, ValueKind::Number) => self.put(&format!("({value})")),
            _ => return Err(refused("a constant of another kind", line, "use texts and numbers")),
        }
        Ok(())
    }
}

fn line(expression: &Expr<'_>) -> u16 {
    expression.span().start_line
}

fn refused(what: &str, line: u16, remedy: &str) -> String {
    format!("templates may not use {what} (in line {line}): {remedy}")
}

pub(crate) fn unknown(what: &str, name: &str, line: u16) -> String {
    let remedy = match name {
        "namespace" => "; write a total as {{ payload.lines|sum(attribute=\"amount\") }}",
        _ => "",
    };
    format!("unknown {what} in line {line}: templates have no {what} `{name}`{remedy}")
}

fn is_calculation(kind: BinOpKind) -> bool {
    use BinOpKind::{Add, Div, FloorDiv, Mul, Pow, Rem, Sub};
    matches!(kind, Add | Sub | Mul | Div | FloorDiv | Rem | Pow)
}

fn operator(kind: BinOpKind) -> &'static str {
    match kind {
        BinOpKind::Eq => " == ",
        BinOpKind::Ne => " != ",
        BinOpKind::Lt => " < ",
        BinOpKind::Lte => " <= ",
        BinOpKind::Gt => " > ",
        BinOpKind::Gte => " >= ",
        BinOpKind::ScAnd => " and ",
        BinOpKind::ScOr => " or ",
        BinOpKind::Add => " + ",
        BinOpKind::Sub => " - ",
        BinOpKind::Mul => " * ",
        BinOpKind::Div => " / ",
        BinOpKind::FloorDiv => " // ",
        BinOpKind::Rem => " % ",
        BinOpKind::Pow => " ** ",
        BinOpKind::Concat => " ~ ",
        BinOpKind::In => " in ",
    }
}

fn comparison(kind: CompareOpKind) -> &'static str {
    match kind {
        CompareOpKind::Eq => " == ",
        CompareOpKind::Ne => " != ",
        CompareOpKind::Lt => " < ",
        CompareOpKind::Lte => " <= ",
        CompareOpKind::Gt => " > ",
        CompareOpKind::Gte => " >= ",
        CompareOpKind::In => " in ",
        CompareOpKind::NotIn => " not in ",
    }
}
