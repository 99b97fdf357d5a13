import ASN
import Crypto
import Foundation
import SOCKS
import SocialStore
import Store
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
    Target(
      name: "socks",
      seeds: {
        [
          [5, 2, 1, 0, 5, 0, 0, 1, 127, 0, 0, 1, 0, 80, 22, 3], [5, 2, 1, 0, 5, 0, 0, 3, 2, 97, 98, 0, 80],
          [5, 2, 1, 0, 5, 0, 0, 4] + [UInt8](repeating: 0, count: 18), [5, 0xFF], [5, 2, 1, 1], [5, 2, 1, 0, 5, 6],
        ]
      },
      goals: ["send", "connected", "failed"],
      play: { bytes in
        guard let target = SOCKSTarget(host: "a.example", port: 443),
          let credentials = SOCKSLogin(user: "a", password: "b")
        else { return [] }
        var reached: Set<String> = []
        // The same answers whole, and one octet at a time: the octets of the target are what follows.
        func read(_ portions: [[UInt8]]) -> (sent: [[UInt8]], end: SOCKSError?, rest: [UInt8]?) {
          var handshake = SOCKSHandshake(to: target, as: credentials)
          var (sent, end): ([[UInt8]], SOCKSError?) = ([], nil)
          for (index, portion) in portions.enumerated() {
            for step in handshake.receive(portion) {
              switch step {
              case .send(let bytes):
                sent.append(bytes)
                reached.insert("send")
              case .connected(let rest):
                reached.insert("connected")
                return (sent, end, rest + portions[(index + 1)...].joined())
              case .failed(let error):
                end = error
                reached.insert("failed")
              }
            }
          }
          return (sent, end, nil)
        }
        let (whole, single) = (read([Array(bytes)]), read(bytes.map { [$0] }))
        promise(whole == single, "the proxy's answers are understood alike however they are cut")
        promise(whole.sent.count <= 2, "the client sends credentials and one request")
        return reached
      }),
    Target(
      name: "social-import",
      seeds: {
        let owner = try UserKey([UInt8](repeating: 7, count: 32))
        let blob = Blob(
          owner: owner, author: owner, epoch: 9, name: try BlobName("note"), content: [1, 2, 3],
          random: [UInt8](repeating: 5, count: 32))
        let (sum, user) = (blob.sum.hex, owner.hex)
        let path = "\(sum.prefix(2))/\(sum.dropFirst(2))"
        let link = "\(user.prefix(2))/\(user.dropFirst(2))/note"
        func file(_ name: String, _ bytes: [UInt8]) -> [UInt8] {
          [UInt8(name.utf8.count)] + Array(name.utf8) + [UInt8(bytes.count)] + bytes
        }
        return [
          file(path, blob.bytes), file(path, blob.bytes) + file(link, blob.bytes),
          file(path, [0, 0x88] + blob.bytes.dropFirst(2)), file("a/b", [1]) + file("ab/c", []),
        ]
      },
      goals: ["blob", "link", "flag", "problem"],
      play: { bytes in
        guard let folder = ImportTree.make(Array(bytes)) else { return [] }
        defer { try? FileManager.default.removeItem(atPath: folder) }
        guard let state = taken({ try StateDirectory(path: folder + "/state") }),
          let store = taken({ try SQLiteBlobStore(in: state) })
        else { return [] }
        defer { store.close() }
        guard let report = taken({ try StoreImport.read(from: folder + "/tree", into: store) }) else { return [] }
        promise((taken { try store.usage().blobs }) == report.blobs, "the store has what the report counts")
        // The same tree again adds nothing.
        let again = taken { try StoreImport.read(from: folder + "/tree", into: store) }
        promise((taken { try store.usage().blobs }) == report.blobs, "an import that is repeated adds no blob")
        promise(again?.problems == report.problems, "the same files are passed over again")
        var reached: Set<String> = []
        if report.blobs > 0 { reached.insert("blob") }
        if report.links > 0 { reached.insert("link") }
        if report.flagged > 0 { reached.insert("flag") }
        if report.problems > 0 { reached.insert("problem") }
        return reached
      }),
  ]
}

/// A tree of files on the disk from any bytes: for each file a length and its name, and a length and its content.
private enum ImportTree {
  /// - Returns: the folder of `tree` and `state`; nil if it cannot be made.
  static func make(_ bytes: [UInt8]) -> String? {
    let place = FileManager.default.fileExists(atPath: "/dev/shm") ? "/dev/shm" : "/tmp"
    let folder = "\(place)/earshot-fuzz.\(getpid())"
    try? FileManager.default.removeItem(atPath: folder)
    for name in ["", "/tree", "/state"] where mkdir(folder + name, 0o700) != 0 { return nil }
    var rest = bytes[...]
    func next() -> [UInt8]? {
      guard let count = rest.popFirst(), rest.count >= Int(count) else { return nil }
      defer { rest = rest.dropFirst(Int(count)) }
      return Array(rest.prefix(Int(count)))
    }
    while let name = next(), let content = next() {
      guard let path = String(validating: name, as: UTF8.self), !path.hasPrefix("/"), !path.contains("\0"),
        !path.split(separator: "/").contains("..")
      else { continue }
      let file = URL(filePath: "\(folder)/tree/\(path)")
      try? FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
      try? Data(content).write(to: file)
    }
    return folder
  }
}
