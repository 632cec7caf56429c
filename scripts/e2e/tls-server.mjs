// A TLS server of Node's own stack (OpenSSL 3.5) on a free port, which it prints: answers with the version agreed on.
import https from 'node:https'
import { readFileSync } from 'node:fs'

const [cert, key] = process.argv.slice(2).map((file) => readFileSync(file))
const server = https.createServer({ cert, key }, (request, response) => {
  response.end(`${request.socket.getProtocol()}\n`)
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
