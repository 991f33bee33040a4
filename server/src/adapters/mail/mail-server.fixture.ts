import type { AddressInfo } from 'node:net'
import { createServer, type Socket } from 'node:net'

export interface MailServer {
  url: string
  /** What was taken, oldest first. */
  messages: { from: string; to: string[]; data: string }[]
  stop(): Promise<void>
}

export interface MailServerOptions {
  user?: string
  password?: string
  /** Answers to particular recipients. */
  refuse?: Record<string, string>
}

/** A mail server on loopback that takes messages and keeps them: RFC 5321 as far as a client needs it. */
export async function startMailServer(options: MailServerOptions = {}): Promise<MailServer> {
  const messages: MailServer['messages'] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined)
    converse(socket, options, messages)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const login = options.user ? `${options.user}:${encodeURIComponent(options.password ?? '')}@` : ''
  return {
    url: `smtp://${login}127.0.0.1:${port}`,
    messages,
    stop: () => {
      for (const socket of sockets) socket.destroy()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}

function converse(socket: Socket, options: MailServerOptions, messages: MailServer['messages']): void {
  const say = (line: string) => socket.write(`${line}\r\n`)
  let envelope = { from: '', to: [] as string[] }
  let data: string[] | null = null
  let rest = ''

  const take = (line: string) => {
    if (data) {
      if (line !== '.') return void data.push(line.startsWith('.') ? line.slice(1) : line)
      messages.push({ ...envelope, data: data.join('\n') })
      data = null
      envelope = { from: '', to: [] }
      return say('250 taken')
    }
    const address = /<([^>]*)>/.exec(line)?.[1] ?? ''
    const verb = line.slice(0, 4).toUpperCase()
    if (verb === 'EHLO') return say(options.user ? '250-here\r\n250 AUTH PLAIN' : '250 here')
    if (verb === 'AUTH') {
      const [, user, password] = Buffer.from(line.split(' ')[2] ?? '', 'base64')
        .toString()
        .split('\0')
      return say(user === options.user && password === options.password ? '235 welcome' : '535 who are you')
    }
    if (verb === 'MAIL') envelope.from = address
    if (verb === 'RCPT') {
      const refusal = options.refuse?.[address]
      if (refusal) return say(refusal)
      envelope.to.push(address)
    }
    if (verb === 'RSET') envelope = { from: '', to: [] }
    if (verb === 'DATA') {
      data = []
      return say('354 go on')
    }
    if (verb === 'QUIT') {
      say('221 bye')
      return void socket.end()
    }
    return say('250 ok')
  }

  socket.setEncoding('utf8').on('data', (piece: string) => {
    const lines = (rest + piece).split('\r\n')
    rest = lines.pop()!
    for (const line of lines) take(line)
  })
  say('220 here')
}
