import ASN
import Crypto
import WebSocket

extension Target {
  /// What reaches the social server before a login: the handshake and the frames of WebSocket.
  static let social = [
    Target(
      name: "social-upgrade",
      seeds: {
        let request =
          "GET /asn HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
          + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        return [request, request + "\u{82}", "GET / HTTP/1.1\r\n\r\n", "POST /asn HTTP/1.1\r\nA: b\r\n\r\n"]
          .map { Array($0.utf8) }
      },
      goals: ["accept", "refuse", "wait"],
      play: { bytes in
        // The same head whole, and one octet at a time.
        func read(_ portions: [[UInt8]]) -> UpgradeRequest.Step {
          var request = UpgradeRequest(path: "/asn")
          for (index, portion) in portions.enumerated() {
            switch request.receive(portion) {
            case .wait: break
            case .accept(let response, let rest):
              return .accept(response: response, rest: rest + portions[(index + 1)...].joined())
            case .refuse(let status, let response): return .refuse(status: status, response: response)
            }
          }
          return .wait
        }
        let (whole, single) = (read(bytes.isEmpty ? [] : [Array(bytes)]), read(bytes.map { [$0] }))
        promise(whole == single, "a head is understood alike however it is cut")
        switch whole {
        case .wait: return ["wait"]
        case .accept: return ["accept"]
        case .refuse(let status, let response):
          promise(response.starts(with: Array("HTTP/1.1 \(status) ".utf8)), "a refusal is a response")
          return ["refuse"]
        }
      }),
    Target(
      name: "social-frames",
      seeds: {
        let client = WebSocketFraming(role: .client, random: SeededRandom(seed: 1))
        return [
          client.send([1, 2, 3]), client.send([UInt8](repeating: 7, count: 300)), client.ping(),
          client.send([]) + client.close(.normal),
        ]
      },
      goals: ["message", "send", "close"],
      play: { bytes in
        var reached: Set<String> = []
        // The messages are the same however the stream is cut.
        func read(_ portions: [[UInt8]]) -> [[UInt8]] {
          let framing = WebSocketFraming(role: .server, limit: 4096, random: SeededRandom(seed: 2))
          var messages: [[UInt8]] = []
          for action in portions.flatMap({ framing.receive($0) }) {
            switch action {
            case .message(let message):
              promise(message.count <= 4096, "a message has its limit")
              messages.append(message)
              reached.insert("message")
            case .send: reached.insert("send")
            case .close: reached.insert("close")
            case .pong: break
            }
          }
          return messages
        }
        promise(read([Array(bytes)]) == read(bytes.map { [$0] }), "messages are alike")
        return reached
      }),
  ]
}
