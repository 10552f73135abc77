// An Azure Blob server for tests: Azurite, in memory or over a folder.
//
//   node main.js MODULES [--root DIR] [--listen 127.0.0.1:0]
//
// MODULES is the folder node_modules that has Azurite. Prints the address as the
// first line of standard output and ends at SIGTERM, or when standard input
// closes: a server whose test was killed does not stay behind.
'use strict';

const path = require('path');

const [modules, ...rest] = process.argv.slice(2);
const options = { '--listen': '127.0.0.1:0', '--root': '' };
for (let i = 0; i < rest.length; i += 2) {
  if (!(rest[i] in options) || i + 1 === rest.length) {
    console.error('azurite: want MODULES [--root DIR] [--listen HOST:PORT]');
    process.exit(2);
  }
  options[rest[i]] = rest[i + 1];
}
const [host, port] = options['--listen'].split(':');

process.argv = [
  process.argv[0], 'azurite-blob', '--blobHost', host, '--blobPort', port,
  '--silent', '--skipApiVersionCheck', '--disableTelemetry',
  ...(options['--root'] ? ['--location', options['--root']] : ['--inMemoryPersistence']),
];

console.log = (line) => {
  const listening = /listens on http:\/\/(\S+)/.exec(line);
  if (listening) {
    process.stdout.write(listening[1] + '\n');
  } else {
    process.stderr.write(line + '\n');
  }
};

process.stdin.on('end', () => process.exit(0)).on('error', () => process.exit(0)).resume();

require(path.join(path.resolve(modules), 'azurite', 'dist', 'src', 'blob', 'main.js'));
