import Common
import DBus
import Journal
import Loop
import Radio
import TestSupport
import Testing

@testable import BlueZ

@Suite("Adapters blocked by rfkill")
struct BlockTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A blocked adapter is recognised by bluetoothd's PowerState or by the kernel's rfkill list")
  @LoopActor
  func blocked() async throws {
    for (powerState, block) in [("off-blocked", nil), (nil, .soft)] as [(String?, RadioBlock?)] {
      let rig = try await Rig(
        block: { $0 == "hci0" ? block : nil },
        prepare: { $0.addAdapter(isPowered: false, powerState: powerState) })
      defer { rig.close() }
      let status = try await rig.reach(.waiting, "The adapter hci0 is blocked by rfkill: rfkill unblock bluetooth.")
      #expect(status.reason.hasSuffix("If it stays off: bluetoothctl power on."))
    }
  }

  @Test("For an adapter blocked by a hardware switch, the status names the switch and no rfkill command")
  @LoopActor
  func hard() async throws {
    let rig = try await Rig(block: { _ in .hard }, prepare: { $0.addAdapter(isPowered: false) })
    defer { rig.close() }
    let status = try await rig.reach(.waiting, "The adapter hci0 is blocked by a switch of this machine")
    #expect(!status.reason.contains("rfkill unblock"))
  }

  @Test("With several adapters, the rfkill command in the status selects the blocked one")
  @LoopActor
  func several() async throws {
    let blocks = Blocks()
    let rig = try await Rig(
      adapter: "hci1", block: { blocks.all[$0] },
      prepare: {
        $0.addAdapter("hci0")
        $0.addAdapter("hci1", isPowered: false)
      })
    defer { rig.close() }
    let command = "in bluetoothctl, select 00:AA:01:01:00:01, then power on."
    try await rig.reach(.waiting, "The adapter hci1 is switched off: \(command)")
    blocks.all["hci0"] = .soft
    try await rig.pass(.seconds(6))
    #expect(rig.statuses.all.count == 1, "a block of another adapter is not reported")
    blocks.all["hci1"] = .soft
    rig.time.advance(by: .seconds(5))
    try await rig.reach(.waiting, "hci1 is blocked by rfkill: rfkill unblock bluetooth. If it stays off: \(command)")
  }

  @Test("An adapter that is off and not blocked is reported with the command that powers it on")
  @LoopActor
  func unblocked() async throws {
    let blocks = Blocks()
    blocks.all["hci0"] = .soft
    let rig = try await Rig(block: { blocks.all[$0] }, prepare: { $0.addAdapter(isPowered: false) })
    defer { rig.close() }
    try await rig.reach(.waiting, "rfkill unblock")
    rig.time.advance(by: SituationJournal.settleTime)
    #expect(rig.entries.all.map(\.id) == [.radioWaiting])
    blocks.all = [:]
    rig.time.advance(by: .seconds(5))
    try await rig.reach(.waiting, "The adapter hci0 is switched off: bluetoothctl power on")
    rig.time.advance(by: SituationJournal.settleTime)
    #expect(rig.entries.all.map(\.id) == [.radioWaiting, .radioWaiting])
  }

  @Test("A block that is signalled after power-off is reported, and the adapter is used again when unblocked")
  @LoopActor
  func told() async throws {
    let rig = try await Rig(prepare: { $0.addAdapter(powerState: "on") })
    defer { rig.close() }
    try await rig.reach(.ready)
    rig.fake.power("hci0", false)
    try await rig.reach(.waiting, "switched off")
    rig.fake.setPowerState("hci0", "off-blocked")
    try await rig.reach(.waiting, "rfkill unblock bluetooth")
    rig.fake.setPowerState("hci0", "off")
    try await rig.reach(.waiting, "switched off")
    rig.fake.power("hci0", true)
    try await rig.reach(.ready)
  }

  @Test("The kernel's rfkill list is not read while the adapter is powered")
  @LoopActor
  func on() async throws {
    let blocks = Blocks()
    let rig = try await Rig(
      block: {
        blocks.reads += 1
        return blocks.all[$0]
      })
    defer { rig.close() }
    try await rig.reach(.ready)
    try await rig.pass(.seconds(20))
    #expect(blocks.reads == 0)
  }

  @Test(
    "The kernel's rfkill list gives the soft and the hard block of each radio",
    arguments: [
      ("hci0", "0", "0", nil), ("hci0", "1", "0", .soft), ("hci0", "0", "1", .hard), ("hci0", "1", "1", .hard),
      ("hci7", "1", "1", nil),
    ] as [(String, String, String, RadioBlock?)])
  func list(adapter: String, soft: String, hard: String, block: RadioBlock?) throws {
    let folder = try ScratchFolder()
    #expect(RadioBlock.listed(adapter, in: folder.path("absent")) == nil)
    for (radio, name, soft, hard) in [("rfkill0", "phy0", "1", "1"), ("rfkill1", "hci0", soft, hard)] {
      try folder.make(radio)
      try folder.write(Array("\(name)\n".utf8), to: "\(radio)/name")
      try folder.write(Array("\(soft)\n".utf8), to: "\(radio)/soft")
      try folder.write(Array("\(hard)\n".utf8), to: "\(radio)/hard")
    }
    #expect(RadioBlock.listed(adapter, in: folder.path) == block)
  }

  @LoopActor
  private final class Blocks {
    var all: [String: RadioBlock] = [:]
    var reads = 0
  }
}
