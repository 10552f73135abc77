package checkpoints

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/integrity"
)

// encoded is a batch of rows of one part with the forms that a diff compares.
type encoded struct {
	b    *block
	rows []encodedRow
	sum  integrity.Sum // of the row hashes
}

// encodedRow is a row's place in its block and its forms.
type encodedRow struct {
	i                     int
	key, version, payload []byte
}

// cursor is a stream of rows, read and encoded by a goroutine of its own.
type cursor struct {
	batches chan *encoded
	err     error // valid once batches is closed
	sum     *integrity.Sum
	cur     *encoded
	at      int
}

// open starts a stream over files, which ctx ends. The sums of its rows are added to sum.
func (p *pass) open(ctx context.Context, s *deltatable.Snapshot, files []*deltatable.Add, sum *integrity.Sum) *cursor {
	c := &cursor{batches: make(chan *encoded, 2), sum: sum}
	go func() {
		defer close(c.batches)
		for _, a := range files {
			r := reading{snapshot: s, file: a, columns: p.d.shape.columns(true)}
			c.err = r.rows(ctx, func(cols []arrow.Array, n int) error {
				select {
				case c.batches <- p.encode(cols, n):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			if c.err != nil {
				return
			}
		}
	}()
	return c
}

func (p *pass) encode(cols []arrow.Array, n int) *encoded {
	e := &encoded{b: p.d.shape.block(cols), rows: make([]encodedRow, 0, n)}
	compare := len(p.d.live.removed) > 0
	// NB: forms are slices of buf; when buf grows, those made before keep the old array.
	buf := make([]byte, 0, n*64)
	for i := range n {
		from := len(buf)
		row := encodedRow{i: i}
		buf = e.b.appendCanonical(buf, i, &row)
		if p.part.bits > 0 && !p.part.has(integrity.RowHash(row.key).Lo) {
			buf = buf[:from]
			continue
		}
		e.sum = e.sum.Plus(integrity.RowHash(buf[from:]))
		if compare {
			end := len(buf)
			buf = appendAll(buf, e.b.payload, i)
			row.payload = buf[end:]
		}
		e.rows = append(e.rows, row)
	}
	return e
}

// row is the current row; nil at the end, and where err ended it.
func (c *cursor) row() (*encoded, *encodedRow) {
	for c.cur == nil || c.at == len(c.cur.rows) {
		next, ok := <-c.batches
		if !ok {
			return nil, nil
		}
		*c.sum = c.sum.Plus(next.sum)
		c.cur, c.at = next, 0
	}
	return c.cur, &c.cur.rows[c.at]
}

func (c *cursor) next() { c.at++ }
