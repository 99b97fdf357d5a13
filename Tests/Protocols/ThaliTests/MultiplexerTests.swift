import Bytes
import Common
import Crypto
import Testing

@testable import Thali

@Suite("The multiplexer of presence streams")
struct MultiplexerTests {
  typealias Intent = Multiplexer.Intent

  /// Transfers all output of one multiplexer to the other, in portions of `portion` bytes, and returns the intents.
  @discardableResult
  static func pass(_ from: inout Multiplexer, to other: inout Multiplexer, portion: Int = .max) -> [Intent] {
    var intents: [Intent] = []
    while from.hasOutput {
      var bytes = from.output(limit: 1 << 16).bytes[...]
      while !bytes.isEmpty {
        intents += other.receive(bytes.prefix(portion))
        bytes = bytes.dropFirst(portion)
      }
    }
    return intents
  }

  private static func open(_ side: inout Multiplexer, name: String = "") throws -> Multiplexer.StreamID {
    let id = side.open(name: name)
    return try #require(id)
  }

  private func text(_ text: String) -> ArraySlice<UInt8> { Array(text.utf8)[...] }

  @Test(
    "Every recorded multiplexer frame is written and read byte by byte",
    arguments: Vectors.shared.multiplex.frames.indices)
  func frames(index: Int) throws {
    let row = Vectors.shared.multiplex.frames[index]
    let type = try #require(FrameType(rawValue: row.type))
    let frame = MultiplexerFrame(type, channel: row.channel, data: row.data.bytes)
    #expect(frame.bytes == row.wire.bytes)
    for portion in [1, 2, 1000] {
      var reader = MultiplexerFrameReader()
      var begun: [MultiplexerFrameReader.Piece] = []
      var data: [UInt8] = []
      var unread = row.wire.bytes[...]
      while !unread.isEmpty {
        try reader.read(unread.prefix(portion)) { piece in
          if case .data(let bytes) = piece { data += bytes } else { begun.append(piece) }
        }
        unread = unread.dropFirst(portion)
      }
      #expect(begun == [.begin(type, channel: row.channel), .end] && data == row.data.bytes)
    }
  }

  @Test("The frame types of the multiplexer equal the recorded ones")
  func types() {
    #expect(Set(Vectors.shared.multiplex.types.keys) == Set(FrameType.allCases.map { "\($0.rawValue)" }))
  }

  @Test("Both sides of the recorded multiplexer session send the recorded bytes")
  func session() throws {
    let vectors = Vectors.shared.multiplex
    var client = Multiplexer(role: .client)
    var sent: [UInt8] = []
    func flush() { sent += client.output(limit: .max).bytes }
    let request = vectors.sessionInitiator.bytes[4..<4 + 0x36]
    let first = try Self.open(&client)
    #expect(client.write(request, to: first) == request.count)
    flush()
    let second = try Self.open(&client)
    #expect(client.write(text("second"), to: second) == 6)
    flush()
    client.end(first)
    flush()
    client.destroy(second)
    flush()
    #expect(sent == vectors.sessionInitiator.bytes)

    var server = Multiplexer(role: .server)
    let intents = server.receive(vectors.sessionInitiator.bytes[...])
    let ids = intents.compactMap { if case .opened(let id, _) = $0 { id } else { nil } }
    try #require(ids.count == 2)
    #expect(
      intents == [
        .opened(ids[0], name: ""), .deliver(ids[0], request), .opened(ids[1], name: ""),
        .deliver(ids[1], text("second")), .ended(ids[0]), .destroyed(ids[1], reason: ""),
      ])
    // The answers of the vectors: data on both, and the end of the first.
    let response = text("HTTP/1.1 204 No Content\r\n\r\n")
    var other = Multiplexer(role: .server)
    let open = vectors.sessionInitiator.bytes
    let again = other.receive(open.dropLast(4))
    let both = again.compactMap { if case .opened(let id, _) = $0 { id } else { nil } }
    _ = other.write(response, to: both[0])
    _ = other.write(text("ack"), to: both[1])
    other.end(both[0])
    var answered = other.output(limit: .max).bytes
    // Streams take turns, so the end of the first stands behind its data.
    let end: [UInt8] = [3, 0]
    #expect(answered.suffix(2) == end)
    answered.removeLast(2)
    #expect(answered + end == vectors.sessionReceiver.bytes)
  }

  @Test("1 MB arrives in both directions at once over links that split frames anywhere", arguments: [1000, 7919])
  func bulk(portion: Int) throws {
    var random = SeededRandom(seed: 9)
    let data = random.bytes(1 << 20)
    var (client, server) = (Multiplexer(role: .client), Multiplexer(role: .server))
    let mine = try Self.open(&client)
    let opened = Self.pass(&client, to: &server)
    guard case .opened(let theirs, _) = opened.first else {
      Issue.record("not opened")
      return
    }
    var (up, down): ([UInt8], [UInt8]) = ([], [])
    var (unsentUp, unsentDown) = (data[...], data[...])
    // Each round moves what fits into the buffers of both sides; a stream that loses bytes does not end the loop.
    for _ in 0..<100 where up.count < data.count || down.count < data.count {
      unsentUp = unsentUp.dropFirst(client.write(unsentUp, to: mine))
      unsentDown = unsentDown.dropFirst(server.write(unsentDown, to: theirs))
      for case .deliver(let id, let bytes) in Self.pass(&client, to: &server, portion: portion) {
        up += bytes
        server.consumed(bytes.count, of: id)
      }
      for case .deliver(let id, let bytes) in Self.pass(&server, to: &client, portion: portion) {
        down += bytes
        client.consumed(bytes.count, of: id)
      }
    }
    #expect(up == data && down == data)
  }

  @Test("Each direction of a multiplexed stream ends separately, and the stream is removed when both have ended")
  func halfClose() throws {
    var (client, server) = (Multiplexer(role: .client), Multiplexer(role: .server))
    let mine = try Self.open(&client, name: "echo")
    client.end(mine)
    let intents = Self.pass(&client, to: &server)
    guard case .opened(let theirs, let name) = intents.first else {
      Issue.record("not opened")
      return
    }
    #expect(name == "echo" && intents == [.opened(theirs, name: "echo"), .ended(theirs)])
    #expect(client.room(of: mine) == 0 && client.write([1], to: mine) == 0)
    #expect(server.write(text("late answer"), to: theirs) == 11)
    server.end(theirs)
    #expect(Self.pass(&server, to: &client) == [.deliver(mine, text("late answer")), .ended(mine)])
    // The stream counts as open until its bytes are consumed, while its channel is free already.
    #expect(server.count == 0 && client.count == 1)
    client.consumed(11, of: mine)
    #expect(client.count == 0)
  }

  @Test("Bytes written before the end of a multiplexed stream are sent before the end")
  func endAfterData() throws {
    var (client, server) = (Multiplexer(role: .client), Multiplexer(role: .server))
    let mine = try Self.open(&client)
    let data = [UInt8](repeating: 1, count: 3 * Limits.sentFrameBytes + 5)
    _ = client.write(data[...], to: mine)
    client.end(mine)
    let intents = Self.pass(&client, to: &server)
    var count = 0
    for case .deliver(_, let bytes) in intents { count += bytes.count }
    #expect(count == data.count)
    guard case .ended = intents.last else {
      Issue.record("the end is not last")
      return
    }
  }

  @Test("A destroyed multiplexed stream is removed on both sides, with its unsent bytes")
  func destroy() throws {
    var (client, server) = (Multiplexer(role: .client), Multiplexer(role: .server))
    let mine = try Self.open(&client)
    guard case .opened(let theirs, _) = Self.pass(&client, to: &server).first else {
      Issue.record("not what was expected first")
      return
    }
    _ = client.write(text("never"), to: mine)
    client.destroy(mine, reason: "boom")
    #expect(Self.pass(&client, to: &server) == [.destroyed(theirs, reason: "boom")])
    #expect(client.count == 0 && server.count == 0)
    #expect(server.write([1], to: theirs) == 0 && !server.hasOutput)
    // Destroying a stream whose open frame was not sent sends nothing.
    let other = try Self.open(&client)
    client.destroy(other)
    #expect(client.output(limit: .max).bytes == [])
  }

  @Test("Late data of a destroyed stream does not arrive in the next stream of its channel")
  func lateData() throws {
    var (client, server) = (Multiplexer(role: .client), Multiplexer(role: .server))
    let first = try Self.open(&client)
    guard case .opened(let theirs, _) = Self.pass(&client, to: &server).first else {
      Issue.record("not what was expected first")
      return
    }
    _ = server.write(text("late"), to: theirs)
    let late = server.output(limit: .max).bytes
    client.destroy(first)
    let second = try Self.open(&client)
    #expect(client.receive(late[...]) == [])
    #expect(client.counters.ignoredFrames == 1)
    // A channel number is free again when the peer has destroyed the stream, or both sides have ended it.
    guard case .opened(let next, _) = Self.pass(&client, to: &server).last else {
      Issue.record("not what was expected first")
      return
    }
    server.destroy(next)
    #expect(Self.pass(&server, to: &client) == [.destroyed(second, reason: "")])
    _ = client.open()
    #expect(client.output(limit: .max).bytes == [0x08, 0x00])
  }

  @Test("Both sides may open a channel 0, and the frame type distinguishes the two")
  func twoChannels() throws {
    var client = Multiplexer(role: .client)
    let mine = try Self.open(&client)
    _ = client.output(limit: .max)
    // The server opens a channel 0, which is not allowed, and sends data on both channels 0.
    let frames =
      MultiplexerFrame(.open, channel: 0).bytes + MultiplexerFrame(.dataFromInitiator, channel: 0, data: [1]).bytes
      + MultiplexerFrame(.dataFromReceiver, channel: 0, data: [2]).bytes
    #expect(client.receive(frames[...]) == [.deliver(mine, [2])])
    #expect(client.counters.refusedStreams == 1 && client.counters.ignoredFrames == 1)
    let reason = "only the client opens streams"
    #expect(
      client.output(limit: .max).bytes == MultiplexerFrame(.destroyFromReceiver, channel: 0, data: reason.utf8).bytes)
  }

  @Test("A multiplexer server opens no stream, and a client at most 64")
  func openLimit() throws {
    var (client, server) = (Multiplexer(role: .client), Multiplexer(role: .server))
    #expect(server.open() == nil)
    for _ in 0..<Limits.streams { #expect(client.open() != nil) }
    #expect(client.open() == nil)
    #expect(Self.pass(&client, to: &server).count == 64)
    // A client that does not know the limit has its 65th stream destroyed, and loses no other.
    #expect(server.receive(MultiplexerFrame(.open, channel: 64).bytes[...]) == [])
    #expect(server.count == 64 && server.counters.refusedStreams == 1)
    let answer = MultiplexerFrame(.destroyFromReceiver, channel: 64, data: "too many streams".utf8)
    #expect(server.output(limit: .max).bytes == answer.bytes)
  }

  @Test("A multiplexer channel that the peer opens twice is destroyed")
  func openedTwice() {
    var server = Multiplexer(role: .server)
    let open = MultiplexerFrame(.open, channel: 3).bytes
    guard case .opened(let id, _) = server.receive(open[...]).first else {
      Issue.record("not what was expected first")
      return
    }
    #expect(server.receive(open[...]) == [.destroyed(id, reason: "the peer opened the channel again")])
    #expect(server.count == 0 && server.output(limit: .max).bytes.first == 3 << 3 | 5)
  }

  @Test("Multiplexer frames of type 7, and for channels that are not open, are ignored and counted")
  func unknownChannels() throws {
    var server = Multiplexer(role: .server)
    for type in FrameType.allCases where type != .open {
      #expect(server.receive(MultiplexerFrame(type, channel: 9, data: [1, 2]).bytes[...]) == [])
    }
    #expect(server.receive([0x07, 0x03, 1, 2, 3]) == [])
    #expect(server.counters.ignoredFrames == 7 && !server.hasOutput)
    #expect(server.receive([0x00, 0x00]).count == 1)
  }

  @Test("Data on a multiplexed stream after the peer has ended its direction is ignored")
  func dataAfterEnd() {
    var server = Multiplexer(role: .server)
    guard case .opened(let id, _) = server.receive([0x00, 0x00]).first else {
      Issue.record("not what was expected first")
      return
    }
    #expect(server.receive([0x04, 0x00, 0x02, 0x01, 0x55, 0x04, 0x00]) == [.ended(id)])
    #expect(server.counters.ignoredFrames == 2)
  }

  @Test(
    "A frame above 1 MiB, a varint above 5 bytes, or a channel above 32 bits makes the link fail")
  func failures() throws {
    let limit = Limits.frameBytes
    #expect(limit == 1 << 20)
    for (bytes, failure) in [
      ([0x02, 0x81, 0x80, 0x40], Multiplexer.LinkFailure.frameTooLong), ([0x80, 0x80, 0x80, 0x80, 0x80], .badFrame),
      ([0x02, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], .badFrame), ([0xFA, 0xFF, 0xFF, 0xFF, 0x7F, 0x00], nil),
      ([0x82, 0x80, 0x80, 0x80, 0x80], .badFrame),
    ] as [([UInt8], Multiplexer.LinkFailure?)] {
      var server = Multiplexer(role: .server)
      let intents = server.receive(([0x00, 0x00] + bytes)[...])
      guard let failure else {
        #expect(intents.count == 1)
        continue
      }
      #expect(intents.last == .fail(failure))
      #expect(server.receive([0x08, 0x00]) == [] && !server.isReading && !server.hasOutput && server.count == 0)
    }
    // A frame of exactly 1 MiB is accepted, in portions.
    var server = Multiplexer(role: .server)
    guard case .opened(let id, _) = server.receive([0x00, 0x00, 0x02, 0x80, 0x80, 0x40]).first else {
      Issue.record("not what was expected first")
      return
    }
    var count = 0
    for _ in 0..<256 {
      for case .deliver(_, let bytes) in server.receive([UInt8](repeating: 3, count: 4096)[...]) {
        count += bytes.count
        server.consumed(bytes.count, of: id)
      }
    }
    #expect(count == 1 << 20)
    #expect(server.receive([0x04, 0x00]) == [.ended(id)])
  }

  @Test("A multiplexed stream accepts 256 KiB beyond what the link accepts, and reports when it accepts more")
  func outgoingBackPressure() throws {
    var client = Multiplexer(role: .client)
    let id = try Self.open(&client)
    let megabyte = [UInt8](repeating: 5, count: 1 << 20)
    #expect(client.write(megabyte[...], to: id) == Limits.streamBuffer)
    #expect(client.write([1], to: id) == 0 && client.room(of: id) == 0)
    var sent = 0
    var resumed: [Multiplexer.StreamID] = []
    while resumed.isEmpty, client.hasOutput {
      let output = client.output(limit: 10_000)
      #expect(output.bytes.count < 10_000 + Limits.sentFrameBytes + 10)
      sent += output.bytes.count
      resumed += output.resumed
    }
    #expect(resumed == [id] && sent >= Limits.streamBuffer / 2 && sent < Limits.streamBuffer)
    #expect(client.room(of: id) >= Limits.streamBuffer / 2)
  }

  @Test("The link is not read while a multiplexed stream has 256 KiB that its program has not read")
  func incomingBackPressure() throws {
    var server = Multiplexer(role: .server)
    guard case .opened(let id, _) = server.receive([0x00, 0x00]).first else {
      Issue.record("not what was expected first")
      return
    }
    let frame = MultiplexerFrame(.dataFromInitiator, channel: 0, data: [UInt8](repeating: 7, count: 1 << 16)).bytes
    for _ in 0..<3 { _ = server.receive(frame[...]) }
    #expect(server.isReading)
    _ = server.receive(frame[...])
    #expect(!server.isReading)
    server.consumed(1, of: id)
    #expect(server.isReading)
    // A stream that ends with bytes left counts until they are consumed, and its destruction frees the link.
    _ = server.receive(frame[...])
    #expect(!server.isReading)
    server.destroy(id)
    #expect(server.isReading && server.count == 0)
  }

  @Test("Multiplexed streams use the link alternately, so that a long one does not delay a short one")
  func fairness() throws {
    var client = Multiplexer(role: .client)
    let (long, short) = (try Self.open(&client), try Self.open(&client))
    _ = client.write([UInt8](repeating: 1, count: 200_000)[...], to: long)
    _ = client.write([2, 2, 2], to: short)
    let start = client.output(limit: 2 * Limits.sentFrameBytes).bytes
    #expect(start.contains(2) && start.count < 4 * Limits.sentFrameBytes)
  }

  @Test("A peer that opens too many multiplexed streams and does not read the refusals makes the link fail")
  func floodOfOpens() {
    var server = Multiplexer(role: .server)
    var intents: [Intent] = []
    for channel: UInt32 in 0..<400 { intents += server.receive(MultiplexerFrame(.open, channel: channel).bytes[...]) }
    #expect(intents.last == .fail(.tooManyAnswers))
    #expect(intents.count == 65)
  }

  @Test("Names and reasons in multiplexer frames are cut at 128 bytes, however long the frame is")
  func texts() {
    var server = Multiplexer(role: .server)
    let name = [UInt8](repeating: UInt8(ascii: "n"), count: 5000)
    guard
      case .opened(let id, let opened) = server.receive(MultiplexerFrame(.open, channel: 0, data: name).bytes[...])
        .first
    else {
      Issue.record("not opened")
      return
    }
    #expect(opened.utf8.count == 128)
    let reason = MultiplexerFrame(.destroyFromInitiator, channel: 0, data: [0x1B, 0x5B] + name).bytes
    guard case .destroyed(id, let shown) = server.receive(reason[...]).first else {
      Issue.record("not what was expected first")
      return
    }
    #expect(shown.hasPrefix("\u{FFFD}[nnn"))
  }
}
