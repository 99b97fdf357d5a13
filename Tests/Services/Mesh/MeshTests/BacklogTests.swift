import Air
import Bitchat
import Common
import Crypto
import Loop
import TestSupport
import Testing

@testable import Mesh

@Suite("Mesh traffic over full links")
struct BacklogTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("600 public messages sent at once arrive in order")
  @LoopActor
  func public600() throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let texts = (0..<600).map { "line \($0)" }
    for text in texts { _ = try ann.mesh.messages.say(text) }
    #expect(village.wait(.seconds(120)) { bob.texts.count == 600 })
    #expect(bob.texts == texts)
  }

  @Test(
    "While all links are full a message is refused with `linksFull`, and messages accepted before arrive"
  )
  @LoopActor
  func full() throws {
    let village = Village(conditions: AirConditions(notifyWindow: 8))
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    // Compressible text would not fill a link.
    var random = SeededRandom(seed: 3)
    let padding = " " + random.bytes(2000).map { String($0, radix: 16) }.joined()
    let (taken, refusal) = Self.say(3000, padding, by: ann)
    #expect(refusal == .linksFull && taken.count > 100)
    #expect(village.wait(.seconds(120)) { bob.texts == taken })
    _ = try ann.mesh.messages.say("one more")
  }

  @Test("600 short public messages are accepted at once, and after them 10 a second")
  @LoopActor
  func quota() throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    var (taken, refusal) = Self.say(3000, by: ann)
    #expect(refusal == .tooManyPublicMessages && taken.count == 600)
    village.time.advance(by: .seconds(2))
    let more = Self.say(3000, " more", by: ann)
    #expect(more.refusal == .tooManyPublicMessages && more.taken.count == 20)
    taken += more.taken
    #expect(village.wait(.seconds(120)) { bob.texts.count == taken.count } && bob.texts == taken)
  }

  /// Sends up to `count` texts, until one is refused.
  @LoopActor
  private static func say(
    _ count: Int, _ padding: String = "", by house: Village.House
  ) -> (taken: [String], refusal: MeshRefusal?) {
    var taken: [String] = []
    for number in 0..<count {
      do throws(MeshRefusal) {
        _ = try house.mesh.messages.say("line \(number)\(padding)")
        taken.append("line \(number)\(padding)")
      } catch {
        return (taken, error)
      }
    }
    return (taken, nil)
  }

  @Test("A private text of 64 KiB arrives in order and before the next text")
  @LoopActor
  func longText() throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let text = (0..<8192).map { "\(1_000_000 + $0) " }.joined()
    let numbers = try [ann.mesh.messages.tell("bob", text), ann.mesh.messages.tell("bob", "short")]
    #expect(village.wait(.seconds(120)) { numbers.allSatisfy { ann.progress[$0]?.last == .delivered } })
    #expect(bob.texts.dropLast().joined() == text && bob.texts.last == "short")
  }
}
