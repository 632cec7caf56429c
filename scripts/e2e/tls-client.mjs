// A TLS client of Node's own stack (OpenSSL 3.5): one GET, the status and the group that was agreed on.
import https from 'node:https'
import { readFileSync } from 'node:fs'

const [url, ca] = process.argv.slice(2)
https.get(url, { ca: readFileSync(ca) }, (response) => {
  const group = response.socket.getEphemeralKeyInfo()
  response.resume()
  response.on('end', () => console.log(response.statusCode, group.name ?? group.type ?? 'unknown'))
}).on('error', (error) => { console.error(error); process.exit(1) })
