import BitchatWire
import Common
import Config
import Loop
import TestSupport
import Testing

@testable import Mesh

@Suite("Configured dialects of mesh peers")
struct DialectServiceTests {
  init() { EventLoop.shared.runInBackground() }

  private typealias PeerDialect = MeshSettings.PeerDialect

  @Test("Nodes with dialect S exchange public and private messages with each other and with dialect L")
  @LoopActor
  func village() async throws {
    let village = Village()
    let (ann, bob) = (village.add("ann") { $0.dialect = .seed }, village.add("bob", at: 8) { $0.dialect = .seed })
    let cat = village.add("cat", at: 16)
    #expect(village.wait { village.isAcquainted })
    #expect(village.wait { ann.mesh.node.engine?.hasSession(with: bob.id) == true }, "it shakes hands by itself")
    _ = try ann.mesh.messages.say("to all")
    #expect(village.wait(.seconds(5)) { bob.texts == ["to all"] && cat.texts == ["to all"] })
    for (one, other) in [(ann, bob), (bob, ann), (ann, cat), (cat, ann)] {
      let number = try one.mesh.messages.tell(other.id.description, "private")
      #expect(village.wait(.seconds(20)) { one.progress[number]?.last == .delivered })
      let waiting = try #require(other.waiting.last)
      #expect(other.mesh.messages.markRead(waiting))
      #expect(village.wait(.seconds(5)) { one.progress[number]?.last == .read })
    }
    #expect(
      (bob.mesh.node.engine?.counters.translatedPackets ?? 0) > 3
        && cat.mesh.node.engine?.counters.translatedPackets == 0)
    #expect(ann.texts == ["private", "private"] && cat.texts == ["to all", "private"])
  }

  @Test("A dialect that is set at run time applies at once, for one peer or for all")
  @LoopActor
  func reload() async throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    var settings = ann.mesh.settings
    settings.dialects = [PeerDialect(peer: bob.id, dialect: .seed)]
    ann.mesh.apply(settings)
    _ = try ann.mesh.messages.say("in dialect S")
    #expect(village.wait(.seconds(5)) { bob.texts == ["in dialect S"] })
    #expect(
      (bob.mesh.node.engine?.counters.translatedPackets ?? 0) > 0
        && ann.mesh.node.engine?.counters.translatedPackets == 0)
    settings = bob.mesh.settings
    settings.dialect = .seed
    bob.mesh.apply(settings)
    #expect(village.wait { (ann.mesh.node.engine?.counters.translatedPackets ?? 0) > 0 }, "they greet each other")
    settings.dialect = .live
    bob.mesh.apply(settings)
    #expect(bob.mesh.settings.engine(nickname: "bob").dialect == .live)
  }

  @Test("Dialects are configured by peer ID or fingerprint, and the last entry for a peer applies")
  func words() throws {
    let fingerprint = "0123456789abcdef" + String(repeating: "0", count: 48)
    let id = try PeerID(text: "0123456789abcdef")
    for word in ["0123456789abcdef:seed", "\(fingerprint):seed", "0123456789ABCDEF:seed"] {
      #expect(PeerDialect(word) == PeerDialect(peer: id, dialect: .seed))
    }
    for word in [
      "0123456789abcdef", "0123456789abcdef:", "0123456789abcde:seed", "bob:seed", ":seed", "a:b:seed",
      "0123456789abcdef:S", "0123456789abcdef:seed:live",
    ] {
      #expect(PeerDialect(word) == nil, "\(word)")
    }
    var settings = MeshSettings()
    settings.dialects = [PeerDialect(peer: id, dialect: .live), PeerDialect(peer: id, dialect: .seed)]
    #expect(settings.engine(nickname: "").dialects == [id: .seed])
    #expect(settings.dialects.map(\.word) == ["0123456789abcdef:live", "0123456789abcdef:seed"])
  }
}
