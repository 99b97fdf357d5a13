import Air
import Common
import Loop
import Radio
import TestSupport
import Testing

@testable import Mesh

@Suite("A mesh peer that writes before it subscribes")
struct LateSubscriptionTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A peer that subscribes after its first write gets our announce as its first notification")
  @LoopActor
  func late() throws {
    let village = Village()
    let ann = village.add("ann")
    let phone = Stranger(on: village, to: ann)
    village.time.advance(by: .seconds(1))
    phone.explore()
    #expect(village.wait(.seconds(5)) { phone.isExplored })
    phone.write([0xFF], as: .command)
    village.time.advance(by: .milliseconds(300))
    #expect(ann.mesh.links.ports.count == 1 && phone.heard.isEmpty)
    phone.subscribe()
    // The next broadcast announce would come later.
    village.time.advance(by: .milliseconds(500))
    #expect(phone.heard.first.map { $0[1] } == 0x01)
    #expect(ann.mesh.links.sender.unreachable == 0)
  }
}
