import Air
import Common
import Loop
import Radio
import TestSupport
import Testing

@testable import Mesh

@Suite("A peer that writes before its subscription has arrived")
struct LateSubscriptionTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("It is told who the node is as soon as it can hear, before anything else")
  @LoopActor
  func late() throws {
    let village = Village()
    let ann = village.add("ann")
    let phone: any Radio = village.air.addNode(position: AirPosition(x: 5)).tenant(village.time)
    var (isFound, heard): (Bool, [[UInt8]]) = (false, [])
    let link = try phone.connect(to: ann.radio.address) { event in
      switch event {
      case .discovered: isFound = true
      case .notified(_, let value): heard.append(value)
      default: break
      }
    }
    village.time.advance(by: .seconds(1))
    link.exchangeMTU(BitchatGATT.mtu)
    link.discover()
    #expect(village.wait(.seconds(5)) { isFound })
    link.write([0xFF], to: BitchatGATT.characteristic, as: .command)
    village.time.advance(by: .milliseconds(300))
    #expect(ann.mesh.ports.count == 1 && heard.isEmpty)
    link.subscribe(to: BitchatGATT.characteristic)
    // The next announce to all would come later.
    village.time.advance(by: .milliseconds(500))
    #expect(heard.first.map { $0[1] } == 0x01)
    #expect(ann.mesh.unreachable == 0)
  }
}
