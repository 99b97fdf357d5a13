import Crypto
import Testing

@testable import WebSocket

/// Encodes a masked frame of a client.
private func frame(
  _ opcode: UInt8, _ payload: [UInt8], isFinal: Bool = true, reserved: UInt8 = 0, isMasked: Bool = true
) -> [UInt8] {
  var bytes = [(isFinal ? 0x80 : 0) | reserved << 4 | opcode]
  let mask: UInt8 = isMasked ? 0x80 : 0
  switch payload.count {
  case ..<126: bytes.append(mask | UInt8(payload.count))
  case ..<65_536: bytes += [mask | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
  default: bytes += [mask | 127] + (0..<8).map { UInt8(truncatingIfNeeded: payload.count >> (56 - 8 * $0)) }
  }
  guard isMasked else { return bytes + payload }
  let key: [UInt8] = [1, 2, 3, 4]
  return bytes + key + payload.enumerated().map { $0.element ^ key[$0.offset % 4] }
}

@Suite("The frames of WebSocket")
struct WebSocketFramingTests {
  private typealias Action = WebSocketFraming.Action

  private let server = WebSocketFraming(role: .server, random: SeededRandom(seed: 1))
  private let client = WebSocketFraming(role: .client, random: SeededRandom(seed: 2))

  private static func closing(_ code: UInt16) -> [Action] {
    [
      .send([0x88, 2, UInt8(code >> 8), UInt8(code & 0xFF)]), .close(CloseCode(rawValue: code)),
    ]
  }

  @Test("Text and binary WebSocket messages are received in the same way, even with bytes that are not UTF-8")
  func messages() {
    let bytes: [UInt8] = [0xFF, 0, 0xC0]
    #expect(server.receive(frame(1, bytes)) == [.message(bytes)])
    #expect(server.receive(frame(2, bytes)) == [.message(bytes)])
    #expect(server.receive(frame(2, [])) == [.message([])])
  }

  @Test(
    "A WebSocket message is sent as one binary frame, and a client's frame is masked",
    arguments: [0, 1, 125, 126, 65_535, 65_536])
  func bothWays(count: Int) {
    let message = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
    let toClient = server.send(message)
    #expect(toClient.first == 0x82 && toClient[1] & 0x80 == 0)
    #expect(client.receive(toClient) == [.message(message)])
    let toServer = client.send(message)
    #expect(toServer.first == 0x82 && toServer[1] & 0x80 != 0)
    #expect(server.receive(toServer) == [.message(message)])
    #expect(client.send(message) != toServer || count == 0)
  }

  @Test("WebSocket bytes that arrive one by one give the same messages as all at once")
  func oneByOne() {
    let frames: [[UInt8]] = [
      frame(2, [1, 2, 3]), frame(9, [7]), frame(1, [0x78], isFinal: false), frame(9, [8]), frame(0, [9]),
      frame(2, [UInt8](repeating: 5, count: 300)),
    ]
    let bytes = frames.flatMap { $0 }
    let actions = bytes.flatMap { server.receive([$0]) }
    #expect(
      actions == [
        .message([1, 2, 3]), .send([0x8A, 1, 7]), .send([0x8A, 1, 8]), .message([0x78, 9]),
        .message([UInt8](repeating: 5, count: 300)),
      ])
  }

  @Test("Fragments of one byte form one WebSocket message, even with control frames between them")
  func fragments() {
    var actions: [Action] = []
    for index in 0..<100 {
      let fragment = frame(index == 0 ? 2 : 0, [UInt8(index)], isFinal: index == 99)
      actions += server.receive(fragment)
      actions += server.receive(frame(10, []))
    }
    #expect(actions.filter { $0 != .pong } == [.message((0..<100).map { UInt8($0) })])
    #expect(actions.count == 101)
  }

  @Test("Of several WebSocket pings that arrive together only the last is answered")
  func pings() {
    let flood = (0..<1000).flatMap { frame(9, [UInt8($0 % 256)]) }
    #expect(server.receive(flood) == [.send([0x8A, 1, 231])])
  }

  @Test("A WebSocket ping from either side is answered by its peer")
  func pong() {
    var answers: [Action] = []
    for case .send(let bytes) in client.receive(server.ping()) { answers += server.receive(bytes) }
    #expect(answers == [.pong])
  }

  private static let broken: [[UInt8]] = [
    frame(2, [1], isMasked: false), frame(2, [], isMasked: false), frame(2, [1], reserved: 4),
    frame(2, [1], reserved: 1), frame(3, [1]), frame(11, []), frame(0, [1]), frame(9, [1], isFinal: false),
    frame(9, [UInt8](repeating: 0, count: 126)), newMessage, frame(8, [3]), frame(8, [0x03, 0xED]), frame(8, [0, 0]),
    frame(8, [0x13, 0x88]), longForm,
  ]
  /// A message begins before the last one ended.
  private static let newMessage: [UInt8] = frame(2, [1], isFinal: false) + frame(2, [2])
  /// A frame with the length 5 in the extended form of two octets, which RFC 6455 forbids for short payloads.
  private static let longForm: [UInt8] = [0x82, 0xFE, 0, 5, 0, 0, 0, 0, 1, 2, 3, 4, 5]

  @Test("WebSocket input that violates the protocol closes the connection with code 1002", arguments: Self.broken)
  func malformed(bytes: [UInt8]) {
    #expect(server.receive(bytes) == Self.closing(1002))
    #expect(server.receive(frame(2, [1])) == [] && server.send([1]) == [] && server.close(.normal) == [])
  }

  @Test("A masked frame from a WebSocket server closes the connection with code 1002")
  func maskedServer() {
    let actions = client.receive(frame(2, [1]))
    #expect(actions.last == .close(.protocolError))
  }

  @Test("A message of 64 KiB arrives, and a longer one closes with code 1009, in one frame or in fragments")
  func tooLarge() {
    let limit = [UInt8](repeating: 7, count: 65_536)
    #expect(server.receive(frame(2, limit)) == [.message(limit)])
    let first = frame(2, limit, isFinal: false)
    #expect(server.receive(first) == [])
    #expect(server.receive(frame(0, [1])) == Self.closing(1009))
    let other = WebSocketFraming(role: .server, random: SeededRandom(seed: 1))
    // The length in the header suffices to refuse the message, before its payload arrives.
    #expect(other.receive(frame(2, limit + [1]).prefix(15)) == Self.closing(1009))
  }

  @Test("A WebSocket close frame is answered with its code, and ends the connection")
  func closed() {
    #expect(server.receive(frame(8, [0x03, 0xE9, 0x62])) == Self.closing(1001))
    let empty = WebSocketFraming(role: .server, random: SeededRandom(seed: 1))
    #expect(empty.receive(frame(8, [])) == [.send([0x88, 0]), .close(.absent)])
    let bad = WebSocketFraming(role: .server, random: SeededRandom(seed: 1))
    #expect(bad.receive(frame(8, [0x03, 0xE8, 0xFF])) == Self.closing(1007))
  }

  @Test("After sending a close frame a side sends nothing more, and accepts only the peer's close frame")
  func closing() {
    #expect(server.close(.goingAway) == [0x88, 2, 0x03, 0xE9])
    #expect(server.send([1]) == [] && server.ping() == [] && server.close(.normal) == [])
    #expect(server.receive(frame(2, [1]) + frame(9, [])) == [])
    #expect(server.receive(frame(8, [0x03, 0xE9])) == [.close(.goingAway)])
  }
}
