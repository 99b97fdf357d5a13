import Air
import Common
import DBus
import Journal
import Loop
import PBLEC
import Radio
import TestSupport
import Testing

@testable import Broadcast

/// Invalid input from programs and from the radio.
@Suite("Invalid input to the local broadcast channel")
struct BadInputTests {
  init() { EventLoop.shared.runInBackground() }

  private static func error(_ name: String) -> String { "org.earshot.Error.\(name)" }

  @Test(
    "A broadcast text that is empty, longer than 24 bytes or has control characters is refused",
    arguments: [("", 0), (String(repeating: "é", count: 13), 26), ("a\u{0}b", 3), ("a\u{1B}[2J", 5), ("\u{9F}", 2)])
  @LoopActor
  func texts(text: String, bytes: Int) {
    let stall = Plaza().add()
    do throws(BroadcastService.Refusal) {
      _ = try stall.send(text)
      Issue.record("taken")
    } catch {
      #expect(DBusError(error).name == Self.error("InvalidArgs"))
      #expect(error.sentence.contains("\(bytes)"))
    }
  }

  @Test("A fifth broadcast message is refused with the seconds to wait, and accepted after them")
  @LoopActor
  func queue() throws {
    let plaza = Plaza()
    let stall = plaza.add()
    for number in 0..<4 { _ = try stall.send("\(number)") }
    plaza.time.advance(by: .seconds(1))
    do throws(BroadcastService.Refusal) {
      _ = try stall.send("4")
      Issue.record("taken")
    } catch {
      #expect(DBusError(error).name == Self.error("LimitExceeded"))
      #expect(error.sentence.contains("in 4s") || error.sentence.contains("in 3s"))
    }
    plaza.time.advance(by: .seconds(4))
    #expect(stall.refusal("4") == "")
    plaza.time.advance(by: .seconds(40))
    #expect(stall.outcomes.count == 5 && stall.outcomes.values.allSatisfy { $0 == nil })
  }

  @Test("A second beacon on one day is refused with the date when the next one is allowed")
  @LoopActor
  func secondNotify() {
    let plaza = Plaza()
    let stall = plaza.add()
    var refusals: [BroadcastService.Refusal?] = []
    stall.service.notify { refusals.append($0) }
    plaza.time.advance(by: .seconds(1))
    stall.service.notify { refusals.append($0) }
    plaza.time.advance(by: .seconds(70))
    stall.service.notify { refusals.append($0) }
    #expect(refusals.count == 3 && refusals[0] == nil)
    let names = refusals.dropFirst().compactMap { $0.map { DBusError($0).name } }
    #expect(names == [Self.error("LimitExceeded"), Self.error("LimitExceeded")])
    #expect(refusals.dropFirst().allSatisfy { $0?.sentence.contains("2026-03-10") == true })
  }

  @Test("Without an adapter no broadcast message is accepted, and queued ones fail within 30 s")
  @LoopActor
  func noAdapter() throws {
    let plaza = Plaza()
    let stall = plaza.add()
    let first = try stall.send("one")
    let second = try stall.send("two")
    plaza.time.advance(by: .seconds(5))
    #expect(stall.outcomes[first] == .some(nil))
    stall.node.power = false
    plaza.time.advance(by: .seconds(1))
    #expect(stall.refusal("three") == Self.error("NotReady"))
    plaza.time.advance(by: .seconds(31))
    let outcome = stall.outcomes[second].flatMap { $0 }
    let error = try #require(outcome)
    #expect(error.code == "NotReady" || error.code == "Timeout")
    #expect(stall.service.engine?.waiting == 0)
  }

  @Test("A broadcast message whose adapter disappears while it is sent fails as cut short")
  @LoopActor
  func cutShort() throws {
    let plaza = Plaza()
    let stall = plaza.add()
    let number = try stall.send("one")
    plaza.time.advance(by: .seconds(2))
    stall.node.power = false
    plaza.time.advance(by: .seconds(1))
    #expect(stall.outcomes[number] == .some(.cutShort))
  }

  @Test("A broadcast message that gets no advertising slot for 30 s fails with a timeout")
  @LoopActor
  func noSlot() throws {
    let plaza = Plaza()
    let stall = plaza.add(slots: 1)
    // A tenant with a higher priority holds the slot.
    let other = stall.shared.tenant("other", share: LinkShare(needs: 1, may: 1, priority: 10))
    let terms = AdvertisingTerms(.person, leastTime: .seconds(600), longestWait: .seconds(600))
    let advertisement = try other.advertise(Advertisement(data: AdvertisingData([.flags(6)])), terms, for: nil)
    let quiet = other.askForQuiet()
    plaza.time.advance(by: .seconds(1))
    let number = try stall.send("one")
    plaza.time.advance(by: .seconds(29))
    #expect(stall.outcomes[number] == nil)
    plaza.time.advance(by: .seconds(2))
    #expect(stall.outcomes[number] == .some(.noPlace))
    #expect(DBusError(BroadcastService.Refusal.feed(.noPlace)).name == Self.error("Timeout"))
    var refusals: [BroadcastService.Refusal?] = []
    stall.service.notify { refusals.append($0) }
    plaza.time.advance(by: .seconds(32))
    // The beacon was not broadcast, so it may be tried again today.
    #expect(stall.calls == [.noPlace])
    advertisement.cancel()
    quiet.cancel()
    stall.service.notify { refusals.append($0) }
    plaza.time.advance(by: .seconds(70))
    #expect(stall.calls == [.noPlace, nil] && refusals.count == 2 && refusals.allSatisfy { $0 == nil })
    #expect(stall.refusal("again") == "")
  }

  @Test("A radio error of a broadcast message is reported with its own sentence, not as a missing slot")
  func radioErrors() {
    #expect(RadioError.noSlot(after: .seconds(30)).feedError == .noPlace)
    #expect(RadioError.notReady("Off.").feedError == .noRadio("Off."))
    let late = RadioError.timedOut("advertise")
    #expect(late.feedError == .radioFailed(late.sentence) && late.feedError.sentence != BroadcastError.noPlace.sentence)
  }

  @Test("A broadcast message can be cancelled while queued or sent; an unknown number gives NotFound")
  @LoopActor
  func cancel() throws {
    let plaza = Plaza()
    let (stall, ear, packets) = (plaza.add(), plaza.add(), try plaza.listen())
    let (first, second) = (try stall.send("one"), try stall.send("two"))
    plaza.time.advance(by: .seconds(1))
    #expect(packets.names.first?.packets.count ?? 0 >= 9)
    try stall.service.cancel(first)
    try stall.service.cancel(second)
    plaza.time.advance(by: .seconds(20))
    #expect(stall.outcomes == [first: .some(.cancelled), second: .some(.cancelled)])
    #expect(ear.texts == ["one"])
    // The rest of the message was not broadcast.
    #expect(packets.names.first?.packets.count ?? 0 <= 12)
    for number in [first, 77] {
      do throws(BroadcastService.Refusal) {
        try stall.service.cancel(number)
        Issue.record("taken")
      } catch {
        #expect(DBusError(error).name == Self.error("NotFound"))
      }
    }
    // The next message is broadcast.
    _ = try stall.send("three")
    plaza.time.advance(by: .seconds(7))
    #expect(ear.texts == ["one", "three"])
  }

  @Test("A received device name that is not a valid broadcast message is ignored and counted by its reason")
  @LoopActor
  func air() {
    let plaza = Plaza()
    let stall = plaza.add()
    let cases: [(String, [UInt8])] = [
      ("MalformedReports", [3, 9, 0x7E, 0x31, 2, 1, 6, 0x1F, 9]), ("BadTexts", [5, 9, 0x7E, 0x31, 0xFF, 0xFE]),
      ("NamesWithoutDigit", [2, 9, 0x7E]), ("NamesWithoutDigit", [6, 9, 0x7E, 0xEF, 0xBC, 0x91, 0x78]),
      ("BadTexts", [5, 9, 0x7E, 0x31, 0xC0, 0xAF]), ("BadTexts", [6, 9, 0x7E, 0x31, 0xED, 0xA0, 0x80]),
      ("ControlCharacters", [6, 9, 0x7E, 0x31, 0x61, 0, 0x62]),
      ("BadBeacons", [24, 0xFF] + NotifyBeacon.prefix + [1, 2, 3]),
    ]
    for (name, data) in cases {
      let before = stall.count(name)
      plaza.hear(data, from: 7)
      plaza.time.advance(by: .milliseconds(10))
      #expect(stall.count(name) == before + 1, "\(name)")
    }
    #expect(stall.texts == [] && stall.service.peersNearby == 0)
    plaza.hear([8, 8, 0x7E, 0x31, 0x61, 0x62, 0xF0, 0x9F, 0x98], from: 7)
    plaza.time.advance(by: .milliseconds(10))
    #expect(stall.texts == ["ab"])
  }

  @Test(
    "Floods of addresses and packets are limited, and logged once a minute")
  @LoopActor
  func flood() {
    let lines = Locked<[LogRecord]>([])
    Log.configure(destination: .capture { record in lines.withLock { $0.append(record) } }, level: .debug)
    defer { Log.configure(destination: .terminal(colour: false), level: .warning) }
    let plaza = Plaza()
    let stall = plaza.add()
    for round in 0..<1200 {
      plaza.hear("~\(round % 10)text \(round)", from: 5)
      for number in 0..<25 { plaza.hear("~1spoof", from: UInt64(0x10_0000 + round * 25 + number)) }
      plaza.time.advance(by: .milliseconds(100))
    }
    #expect(stall.count("PeersFull") > 10_000 && stall.count("TooManyNewPeers") > 100 && stall.count("TooFast") > 1000)
    #expect((200...256).contains(stall.service.peersNearby))
    #expect(!stall.service.statusLine.contains { $0.isNumber }, "every user can read the status line")
    let records = lines.withLock { $0 }.filter { $0.file.hasPrefix("Broadcast/") }
    let floods = records.filter { $0.text.hasPrefix("More messages arrive nearby than the limits allow") }
    #expect((2...3).contains(floods.count))
    // Accepted messages from other peers do not suppress log lines.
    let refused = ["PeersFull", "TooManyNewPeers", "TooFast"].reduce(0) { $0 + stall.count($1) }
    #expect(stall.count("LinesLeftOut") == refused - UInt64(floods.count))
    for _ in 0..<50 { plaza.hear("~9text 1199", from: 5) }
    plaza.time.advance(by: .milliseconds(100))
    #expect(stall.count("LinesLeftOut") == refused - UInt64(floods.count))
    // No log line contains an address or a text.
    let all = records.map { "\($0.text) \($0.fields.map(\.value))" }.joined().uppercased()
    #expect(!all.contains("SPOOF") && !all.contains("00:00:00"))
  }
}
