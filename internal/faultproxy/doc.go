// Package faultproxy is a proxy between a client of an object store and the
// store's server, for tests: it has requests fail in the ways that networks and
// stores fail, counts them, and makes them slow.
//
// A test starts a [Proxy] in front of a server and gives the client the proxy's
// URL. For each request a function of the test decides on a [Fault]; none is
// [Fault]{}. Faults that a store's own documents describe have functions of
// their own: [SlowDown], [InternalError], [Conflict] and so on. [Random] decides
// by chance, with a seed.
//
// The Host header passes unchanged, as signatures cover it: the client signs for
// the proxy's host, and the server checks against the host it is told. Where a
// fault changes what is signed, such as a condition that is taken out, the proxy
// signs anew with [Options.Credentials].
//
// # Caveats
//
// Bodies of requests are kept in memory. Bytes are those of bodies, not of
// headers. HTTP/1.1 without TLS only.
package faultproxy
