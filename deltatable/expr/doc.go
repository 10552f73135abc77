// Package expr parses, types and evaluates SQL expressions of the Spark
// dialect on Arrow record batches. There is one parser, one typed tree and one
// evaluator for every place that takes SQL: filters of reads, delete
// conditions, expectations, and what later comes to them.
//
// Its nouns: an [Expr] is the parsed text, with positions; a [Bound] is an
// expression resolved against a schema, ready to be evaluated on batches
// ([Bound.Eval], [Bound.Filter]) and on statistics ([Bound.MayMatch]).
//
// # Values
//
// Logic is three-valued: a comparison with NULL is NULL, AND, OR and NOT follow
// Kleene, and a row is selected only where the condition is true. Comparisons
// follow Spark's ANSI rules: integers and decimals are compared exactly, with
// float or double operands both sides are taken as double, NaN equals itself
// and is greater than every other number, -0.0 equals 0.0, strings and binaries
// compare by bytes. A string literal beside a column of another type is read as
// a value of that type; one that does not parse is a [BindError].
//
// A value of one type where another is needed is converted as Spark converts it
// implicitly; [Store] is stricter. The file docs/expressions.md lists functions, operators
// and differences from Spark; testdata/functions.jsonl holds what Spark gives.
//
// # Errors
//
// [SyntaxError], [BindError] and [UnsupportedError] carry the position of the
// offending word. What is not supported is refused by Bind with an
// UnsupportedError, never evaluated to something else. A row that fails under
// ANSI rules (overflow, division by zero, text that cannot be cast) is an
// [EvalError] of Eval or Filter. AND, OR, CASE, IF and coalesce evaluate their
// operands for the rows that need them alone, so that what is not needed cannot
// fail.
//
// # Caveats
//
// Timestamps without a zone mean nothing on their own: a literal such as
// TIMESTAMP '2024-01-01 00:00:00', or a date beside a timestamp, is refused
// unless [Options.Zone] says where it is.
package expr
