import Bytes
import Testing

@testable import PBLEC

@Suite("Broadcast packets: flags and one name in 31 bytes")
struct PacketTests {
  private func report(_ structures: [UInt8]...) -> Report { Report(reading: structures.flatMap { $0 }) }

  private func message(_ digit: UInt8, _ text: String) throws -> Report {
    .message(MessagePacket(digit: digit, text: try MessageText(text)))
  }

  private let name = FeedStand.name("~3hi")

  @Test("A broadcast text of 24 bytes is accepted; one of 25 bytes is refused with its length")
  func length() throws {
    let longest = String(repeating: "a", count: 22) + "é"
    let packet = MessagePacket(digit: 4, text: try MessageText(longest))
    #expect(packet.bytes.count == 31)
    #expect(throws: BroadcastError.tooLong(bytes: 25)) { try MessageText("a" + longest) }
    #expect(throws: BroadcastError.empty) { try MessageText("") }
    #expect(BroadcastError.tooLong(bytes: 25).sentence.contains("25"))
    #expect(BroadcastError.empty.sentence.contains("0."))
  }

  @Test("A broadcast text of six emoji of 4 bytes fits, and one emoji of 25 bytes does not")
  func emoji() throws {
    #expect(try MessageText("😆😆😆😆😆😆").count == 24)
    #expect(throws: BroadcastError.tooLong(bytes: 25)) { try MessageText("👨‍👩‍👧‍👦") }
  }

  @Test(
    "NUL and control characters in a broadcast text are refused when sending and receiving",
    arguments: ["a\u{0}b", "\u{1B}[2J", "a\n", "\u{7F}", "\u{80}", "a\u{9F}"])
  func controls(text: String) {
    #expect(throws: BroadcastError.controlCharacters(bytes: text.utf8.count)) { try MessageText(text) }
    #expect(report(FeedStand.name("~1\(text)")) == .refused(.controlCharacter))
  }

  @Test(
    "All characters except control characters are accepted in a broadcast text",
    arguments: ["\u{20}", "\u{7E}", "\u{A0}", "Â", "\u{202E}", "ÿ"])
  func text(text: String) throws {
    #expect(try report(FeedStand.name("~1\(text)")) == message(1, text))
  }

  @Test("A broadcast text may begin with a digit or with `~`")
  func noEscaping() throws {
    #expect(try report(FeedStand.name("~5~5~")) == message(5, "~5~"))
    #expect(try report(FeedStand.name("~6123")) == message(6, "123"))
  }

  @Test(
    "A broadcast name must have an ASCII digit after `~`", arguments: ["~", "~x", "~\u{FF11}x", "~:", "~/", "~ 1"])
  func digits(text: String) {
    #expect(report(FeedStand.name(text)) == .refused(.noDigit))
  }

  @Test(
    "Device names that do not begin with `~` are ignored and not counted", arguments: ["hello", "1~2", " ~1a", "x"])
  func others(text: String) {
    #expect(report(FeedStand.name(text)) == .nothing)
  }

  @Test("A name with a digit but no text, or an empty name, is recognised as the end of a broadcast message")
  func stops() {
    #expect(report(FeedStand.name("~7")) == .stop(digit: 7))
    #expect(report(FeedStand.name("")) == .stop(digit: nil))
  }

  @Test("Flags of a broadcast packet may have any value or be absent, and structures may be in any order")
  func order() throws {
    for flags: [UInt8] in [[], [2, 1, 0x1A], [2, 1, 6], [2, 1, 0]] {
      #expect(try report(flags, name) == message(3, "hi"))
      #expect(try report(name, flags, [3, 3, 1, 2]) == message(3, "hi"))
    }
  }

  @Test("A complete name has precedence over a shortened one, and the first name of each kind applies")
  func twoNames() throws {
    let short: [UInt8] = [4, 8] + Array("~1s".utf8)
    #expect(try report(short, name) == message(3, "hi"))
    #expect(try report(name, short) == message(3, "hi"))
    #expect(try report(short) == message(1, "s"))
    #expect(try report(name, FeedStand.name("~4other")) == message(3, "hi"))
    #expect(report(FeedStand.name("other"), short) == .nothing)
  }

  @Test("A shortened name loses only its last character if that is truncated")
  func shortened() throws {
    func short(_ bytes: [UInt8]) -> Report { report([UInt8(1 + bytes.count), 8] + bytes) }
    let text = Array("~1aé😆".utf8)
    let lengths = [(9, "aé😆"), (8, "aé"), (7, "aé"), (6, "aé"), (5, "aé"), (4, "a"), (3, "a")]
    for (count, left) in lengths { #expect(try short(Array(text.prefix(count))) == message(1, left)) }
    #expect(short(Array("~1".utf8) + [0xF0, 0x9F]) == .stop(digit: 1))
    #expect(short(Array("~1".utf8) + [0xF0, 0x9F, 0x28]) == .refused(.badText))
    #expect(short(Array("~1".utf8) + [0xED, 0xA0]) == .refused(.badText))
    #expect(report([6, 9] + Array("~1a".utf8) + [0xF0, 0x9F]) == .refused(.badText))
  }

  @Test("An AD structure that extends beyond the packet is malformed")
  func overrun() {
    #expect(report(name, [5]) == .refused(.malformedReport))
    #expect(report(name, [2, 1]) == .refused(.malformedReport))
    #expect(report([0x1F], Array(name.dropFirst())) == .refused(.malformedReport))
    let long = [UInt8](repeating: 0, count: 63)
    #expect(Report(reading: long) == .refused(.malformedReport))
  }

  @Test("A packet's data ends at a structure of length 0, and an empty packet is ignored")
  func padding() throws {
    #expect(try report(name, [0, 0xFF, 0xFF]) == message(3, "hi"))
    #expect(report([0], name) == .nothing)
    #expect(report() == .nothing)
  }

  @Test("A received broadcast text longer than an advertisement allows is refused")
  func tooLong() throws {
    let most = String(repeating: "z", count: 27)
    #expect(report(FeedStand.name("~1" + most + "z")) == .refused(.badText))
    guard case .message(let packet) = report(FeedStand.name("~1" + most)) else {
      Issue.record("not read")
      return
    }
    #expect(packet.text.string == most)
  }

  @Test("Two broadcast texts are equal if and only if their bytes are equal")
  func equality() {
    let texts = ["", "a", "a\u{0}", "aa"].map { MessageText(unchecked: Array($0.utf8)[...]) }
    for (index, one) in texts.enumerated() {
      for (other, another) in texts.enumerated() { #expect((one == another) == (index == other)) }
    }
    #expect("\(texts[1])" == "text of 1 bytes")
  }

  @Test("A beacon is recognised by company, type, UUID and length, and a message has precedence over it")
  func beacons() throws {
    let beacon = NotifyBeacon(major: 0x0102, minor: 0x0304)
    let data = beacon.data
    func manufacturer(_ bytes: [UInt8]) -> [UInt8] { [UInt8(1 + bytes.count), 0xFF] + bytes }
    #expect(report(manufacturer(data)) == .beacon(beacon))
    #expect(report(manufacturer(data + [0])) == .refused(.badBeacon))
    #expect(report(manufacturer(data.dropLast())) == .refused(.badBeacon))
    for index in 0..<20 {
      var other = data
      other[index] ^= 1
      #expect(report(manufacturer(other)) == .nothing)
    }
    #expect(report(manufacturer(Array(data.prefix(19)))) == .nothing)
    #expect(try report(manufacturer(data), name) == message(3, "hi"))
    #expect(report(manufacturer(data), FeedStand.name("other")) == .beacon(beacon))
    #expect(beacon.pair == 0x0102_0304 && beacon.power == -59)
  }
}
