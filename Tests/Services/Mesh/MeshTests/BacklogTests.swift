import Air
import Bitchat
import Common
import Loop
import TestSupport
import Testing

@testable import Mesh

@Suite("More messages than a link carries at once")
struct BacklogTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("Of 600 public messages that are sent at once each arrives, in their order")
  @LoopActor
  func public600() throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let texts = (0..<600).map { "line \($0)" }
    for text in texts { _ = try ann.mesh.say(text) }
    #expect(village.wait(.seconds(120)) { bob.texts.count == 600 })
    #expect(bob.texts == texts)
  }

  @Test(
    "Where no link has room for more the sender is told, nothing that was taken is lost, and room comes back"
  )
  @LoopActor
  func full() throws {
    let village = Village(conditions: AirConditions(notifyWindow: 8))
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    var (taken, refusal): ([String], MeshService.Refusal?) = ([], nil)
    for number in 0..<3000 where refusal == nil {
      do throws(MeshService.Refusal) {
        _ = try ann.mesh.say("line \(number)")
        taken.append("line \(number)")
      } catch {
        refusal = error
      }
    }
    #expect(refusal == .linksFull && taken.count > 600)
    #expect(village.wait(.seconds(120)) { bob.texts == taken })
    _ = try ann.mesh.say("one more")
  }

  @Test("A private text of 64 KiB arrives in its order, and the next one behind it")
  @LoopActor
  func longText() throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let text = (0..<8192).map { "\(1_000_000 + $0) " }.joined()
    let numbers = try [ann.mesh.tell("bob", text), ann.mesh.tell("bob", "short")]
    #expect(village.wait(.seconds(120)) { numbers.allSatisfy { ann.progress[$0]?.last == .delivered } })
    #expect(bob.texts.dropLast().joined() == text && bob.texts.last == "short")
  }
}
