import CommandLine
import Foundation
import Loop
import TestSupport
import Testing

@testable import MeshCommands

@Suite("`earshot mesh decode` without a service", .serialized)
struct DecodeTests {
  init() { EventLoop.shared.runInBackground() }

  private static func decoded(_ text: String) throws -> [String: Any] {
    let line = try #require(DecodedLine(.text(text), number: 1))
    let data = Data(JSONWriter.write(line.json).utf8)
    return try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
  }

  @Test("`mesh decode` prints each packet of the vectors as a JSON object with its sender and no error")
  @LoopActor
  func valid() async throws {
    let packets = try PacketVectors.valid
    #expect(packets.count > 45)
    let run = try await ToolCall.decode(packets.joined(separator: "\n"))
    #expect(run.code == .ok && run.failure == nil)
    let lines = run.output.split(separator: "\n")
    #expect(lines.count == packets.count)
    for (index, (line, packet)) in zip(lines, packets).enumerated() {
      let object = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
      #expect(object["error"] == nil && object["line"] as? Int == index + 1, "\(packet): \(line)")
      #expect(object["type"] as? Int == Int(packet.dropFirst(2).prefix(2), radix: 16))
      #expect(object["sender"] as? String == PacketVectors.sender(packet))
    }
  }

  @Test("`mesh decode` prints the error of each malformed packet of the vectors, and exits with a failure")
  @LoopActor
  func malformed() async throws {
    let rows = try PacketVectors.malformed
    var errors: [String: String] = [:]
    for (name, wire) in rows {
      let object = try Self.decoded(wire)
      errors[name] = object["error"] as? String
      #expect((object["sentence"] as? String)?.isEmpty == false, "\(name)")
    }
    #expect(errors.count == rows.count)
    #expect(errors["too_short"] == "TooShort" && errors["version_0"] != errors["too_short"], "\(errors)")
    for (name, wire) in rows {
      let good = try #require(try PacketVectors.valid.first)
      let run = try await ToolCall.decode("\(good)\n\(wire)\n\(good)")
      #expect(run.code == .failed && run.failure == "1 of 3 lines are not packets.", "\(name)")
      // The other packets are still decoded.
      #expect(run.output.split(separator: "\n").count == 3)
    }
  }

  @Test("`mesh decode` prints a packet's text in a field of its own, with control characters escaped")
  func contents() throws {
    let hello = try #require(try PacketVectors.named("v1_message_unsigned_norcpt"))
    let object = try Self.decoded(hello)
    #expect((object["says"] as? [String: Any])?["text"] as? String == "hello mesh ✓")
    #expect(object["timestamp"] as? UInt64 == 1_755_432_100_123)
    // The text with an escape sequence at its beginning.
    let hostile = hello.replacingOccurrences(of: "68656c6c6f", with: "1b5b324a0a")
    let json = JSONWriter.write(try #require(DecodedLine(.text(hostile), number: 1)).json)
    #expect(json.contains(#""text":"\u001b[2J\n mesh ✓""#), "\(json)")
    #expect(!json.unicodeScalars.contains { $0.value < 32 })
  }

  @Test("`mesh decode` prints the largest possible timestamp unchanged")
  func numbers() throws {
    let hello = try #require(try PacketVectors.named("v1_message_unsigned_norcpt"))
    let late = hello.replacingOccurrences(of: "00000198b7e8211b", with: "ffffffffffffffff")
    let json = JSONWriter.write(try #require(DecodedLine(.text(late), number: 1)).json)
    #expect(json.contains(#""timestamp":18446744073709551615,"#), "\(json)")
  }

  @Test("`mesh decode` ignores blanks and empty lines, and counts the empty lines in reported line numbers")
  @LoopActor
  func blanks() async throws {
    let hello = try #require(try PacketVectors.named("v1_message_unsigned_norcpt"))
    let spaced = hello.enumerated().map { $0.offset % 2 == 0 ? " \($0.element)" : "\($0.element)" }.joined()
    let run = try await ToolCall.decode("\n  \n\(spaced)\r\n\n\(hello.uppercased())")
    #expect(run.code == .ok)
    let lines = run.output.split(separator: "\n")
    #expect(lines.count == 2 && lines[0].hasPrefix(#"{"line":3,"#) && lines[1].hasPrefix(#"{"line":5,"#), "\(run)")
    #expect(try await ToolCall.decode("") == .init(.ok, ""))
  }

  @Test("`mesh decode` reads standard input, and reports a missing file")
  @LoopActor
  func sources() async throws {
    let hello = try #require(try PacketVectors.named("v1_message_unsigned_norcpt"))
    for words in [["mesh", "decode"], ["mesh", "decode", "-"], ["mesh", "decode", "--json"]] {
      let run = await ToolCall.run(words, input: hello)
      #expect(run.code == .ok && run.output.hasPrefix(#"{"line":1,"version":1,"#), "\(run)")
    }
    let run = await ToolCall.run("mesh", "decode", "/nowhere/at/all")
    #expect(run.code == .failed && run.failure?.hasPrefix("/nowhere/at/all cannot be read") == true)
  }

  @Test("`mesh decode` reads lines correctly at every block size, and reports a line that is too long")
  func lines() {
    let bytes = Array("ab\n\nlonger\nc".utf8)
    for size in 1...bytes.count {
      var cutter = LineCutter(limit: 4)
      var lines: [LineCutter.Line] = []
      for start in stride(from: 0, to: bytes.count, by: size) {
        lines += cutter.take(bytes[start..<min(start + size, bytes.count)])
      }
      lines += cutter.finish().map { [$0] } ?? []
      #expect(lines == [.text("ab"), .text(""), .tooLong, .text("c")])
    }
    var exact = LineCutter(limit: 4)
    let (taken, rest) = (exact.take(Array("abcd\n".utf8)), exact.finish())
    #expect(taken == [.text("abcd")] && rest == nil)
    let line = DecodedLine(.tooLong, number: 7)
    #expect(line?.isPacket == false && line.map { JSONWriter.write($0.json).contains("TooLong") } == true)
  }
}
