import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Attack: one radio confirms a node's clock under several peer IDs")
struct ClockWitnessAttackTests {
  /// A node whose clock is not trusted.
  private static func stage() -> MeshHall {
    var hall = MeshHall()
    hall.add(["ann"])
    hall.handle(.clock(isTrusted: false), at: 0)
    return hall
  }

  @Test(
    "Peer IDs over links of one device cannot confirm the clock alone; peer IDs of two devices can"
  )
  func oneRadio() {
    var hall = Self.stage()
    let radio = DeviceOrigin(address: 7)
    let link = hall.connect(to: 0, from: radio)
    for number in UInt64(1)...20 {
      hall.inject(Stranger(number).announce(at: hall.time), on: link, to: 0)
      hall.pass(.seconds(1))
    }
    #expect(hall.nodes[0].engine.state == .waitingForClock)
    // The neighbour reconnects under other IDs, over several links in turn or at once.
    for number in UInt64(21)...26 {
      let again = hall.connect(to: 0, from: radio)
      hall.inject(Stranger(number).announce(at: hall.time), on: again, to: 0)
      hall.pass(.seconds(1))
      if number % 2 == 0 { hall.handle(.linkClosed(again), at: 0) }
    }
    #expect(hall.nodes[0].engine.state == .waitingForClock)
    #expect(hall.nodes[0].engine.gate.witnesses.count <= 16)
    // Two neighbours suffice without an attack. Here one more is needed.
    let other = hall.connect(to: 0, from: DeviceOrigin(address: 8))
    hall.inject(Stranger(30).announce(at: hall.time), on: other, to: 0)
    hall.pass(.milliseconds(10))
    #expect(hall.nodes[0].engine.state == .connected)
  }

  @Test("Two neighbours on links of their own confirm the clock; one neighbour on two links does not")
  func undisturbed() {
    var hall = Self.stage()
    let one = hall.connect(to: 0, from: DeviceOrigin(address: 1))
    let two = hall.connect(to: 0, from: DeviceOrigin(address: 2))
    hall.inject(Stranger(1).announce(at: hall.time), on: one, to: 0)
    hall.inject(Stranger(1).announce(at: hall.time + 1), on: two, to: 0)
    #expect(hall.nodes[0].engine.state == .waitingForClock)
    hall.pass(.seconds(61))
    hall.inject(Stranger(2).announce(at: hall.time), on: two, to: 0)
    #expect(hall.nodes[0].engine.state == .connected)
  }

  @Test("A peer's confirmation ends if its clock differs later, and all end when the clock is set")
  func withdrawn() {
    var witnesses = ClockWitnesses()
    let (one, two) = (DeviceOrigin(address: 1), DeviceOrigin(address: 2))
    witnesses.note(PeerID(rawValue: 1), from: one, agrees: true)
    witnesses.note(PeerID(rawValue: 2), from: two, agrees: true)
    #expect(witnesses.areEnough)
    witnesses.note(PeerID(rawValue: 2), from: two, agrees: false)
    #expect(!witnesses.areEnough)
    witnesses.note(PeerID(rawValue: 2), from: two, agrees: true)
    witnesses.forget()
    #expect(!witnesses.areEnough && witnesses.count == 0)
  }

  @Test("Confirmations by 16 peer IDs of one device leave capacity for the confirmation by another device")
  func places() {
    var witnesses = ClockWitnesses()
    for number in UInt64(1)...40 {
      witnesses.note(PeerID(rawValue: number), from: DeviceOrigin(address: 1), agrees: true)
    }
    #expect(witnesses.count == 16 && !witnesses.areEnough)
    witnesses.note(PeerID(rawValue: 99), from: DeviceOrigin(address: 2), agrees: true)
    #expect(witnesses.count == 16 && witnesses.areEnough)
  }
}
