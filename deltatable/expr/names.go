package expr

import "strings"

// MapNames gives a copy of the tree in which every column name is replaced by
// what f makes of it. Names that stand for a lambda's parameter are left alone.
// Nodes without names are shared with e. f's error ends the walk.
func MapNames(e Expr, f func(*Name) (Expr, error)) (Expr, error) {
	m := &mapper{f: f}
	out := m.expr(e)
	return out, m.err
}

type mapper struct {
	f      func(*Name) (Expr, error)
	params []string
	err    error
}

func (m *mapper) isParam(n *Name) bool {
	for _, p := range m.params {
		if strings.EqualFold(p, n.Parts[0]) {
			return true
		}
	}
	return false
}

func (m *mapper) list(in []Expr) []Expr {
	if in == nil {
		return nil
	}
	out := make([]Expr, len(in))
	for i, e := range in {
		out[i] = m.expr(e)
	}
	return out
}

func (m *mapper) expr(e Expr) Expr {
	if e == nil || m.err != nil {
		return e
	}
	switch e := e.(type) {
	case *Name:
		if m.isParam(e) {
			return e
		}
		out, err := m.f(e)
		if err != nil {
			m.err = err
			return e
		}
		return out
	case *Logic:
		return &Logic{At: e.At, Or: e.Or, Args: m.list(e.Args)}
	case *Not:
		return &Not{At: e.At, X: m.expr(e.X)}
	case *Infix:
		return &Infix{At: e.At, Op: e.Op, L: m.expr(e.L), R: m.expr(e.R)}
	case *Prefix:
		return &Prefix{At: e.At, Op: e.Op, X: m.expr(e.X)}
	case *Field:
		return &Field{At: e.At, X: m.expr(e.X), Name: e.Name}
	case *Index:
		return &Index{At: e.At, X: m.expr(e.X), Key: m.expr(e.Key)}
	case *Call:
		return &Call{At: e.At, Func: e.Func, Distinct: e.Distinct, Star: e.Star, Args: m.list(e.Args)}
	case *Cast:
		return &Cast{At: e.At, Try: e.Try, X: m.expr(e.X), Type: e.Type}
	case *Lambda:
		m.params = append(m.params, e.Param)
		out := &Lambda{At: e.At, Param: e.Param, Body: m.expr(e.Body)}
		m.params = m.params[:len(m.params)-1]
		return out
	case *Case:
		out := &Case{At: e.At, X: m.expr(e.X)}
		for _, w := range e.Whens {
			out.Whens = append(out.Whens, When{m.expr(w.Cond), m.expr(w.Then)})
		}
		out.Else = m.expr(e.Else)
		return out
	}
	return m.predicate(e)
}

func (m *mapper) predicate(e Expr) Expr {
	switch e := e.(type) {
	case *Is:
		return &Is{At: e.At, X: m.expr(e.X), Not: e.Not, What: e.What}
	case *Distinct:
		return &Distinct{At: e.At, L: m.expr(e.L), R: m.expr(e.R), Not: e.Not}
	case *In:
		return &In{At: e.At, X: m.expr(e.X), Not: e.Not, List: m.list(e.List)}
	case *Between:
		return &Between{At: e.At, X: m.expr(e.X), Low: m.expr(e.Low), High: m.expr(e.High), Not: e.Not}
	case *Like:
		return &Like{At: e.At, Op: e.Op, X: m.expr(e.X), Not: e.Not, Pattern: m.expr(e.Pattern), Escape: e.Escape}
	}
	return e
}
