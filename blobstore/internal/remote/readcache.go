package remote

import (
	"container/list"
	"sync"
)

// held is the end of an object, or all of a small one, as it was read.
type held struct {
	key, etag string
	size      int64 // of the object
	off       int64 // where data begins; it goes on to the object's end
	data      []byte
}

// holder keeps what was read of ends and small objects, the last used ones up to
// a bound of bytes. Safe for concurrent use.
type holder struct {
	mu    sync.Mutex
	limit int64
	used  int64
	byKey map[string]*list.Element
	order *list.List // of *held; the last used is in front
}

// heldOverhead counts for an object beside its bytes.
const heldOverhead = 256

func newHolder(limit int64) *holder {
	return &holder{limit: limit, byKey: map[string]*list.Element{}, order: list.New()}
}

// get returns what is held of an object of that key and size, nil for nothing.
func (h *holder) get(key string, size int64) *held {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.byKey[key]
	if e == nil {
		return nil
	}
	v, _ := e.Value.(*held)
	if v == nil || v.size != size {
		return nil
	}
	h.order.MoveToFront(e)
	return v
}

// put holds v in the place of what was held under its key.
func (h *holder) put(v *held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removeLocked(h.byKey[v.key])
	if v.weight() > h.limit {
		return
	}
	h.byKey[v.key] = h.order.PushFront(v)
	h.used += v.weight()
	for h.used > h.limit {
		h.removeLocked(h.order.Back())
	}
}

// drop forgets an object.
func (h *holder) drop(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removeLocked(h.byKey[key])
}

func (h *holder) removeLocked(e *list.Element) {
	if e == nil {
		return
	}
	if v, ok := h.order.Remove(e).(*held); ok {
		delete(h.byKey, v.key)
		h.used -= v.weight()
	}
}

func (v *held) weight() int64 { return int64(len(v.data)+len(v.key)) + heldOverhead }
