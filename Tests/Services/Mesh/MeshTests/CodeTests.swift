import Bitchat
import BitchatWire
import Common
import Crypto
import DBus
import Loop
import MeshStore
import TestSupport
import Testing

@testable import Mesh

@Suite("Verification codes of mesh peers")
struct CodeTests {
  init() { EventLoop.shared.runInBackground() }

  @LoopActor
  private static func refusal(_ body: () throws(DBusError) -> PeerID) -> DBusError? {
    do throws(DBusError) {
      _ = try body()
      return nil
    } catch {
      return error
    }
  }

  @Test("A peer that proves its verification code is verified, also after a restart")
  @LoopActor
  func proven() async throws {
    let folder = try ScratchFolder()
    let village = Village()
    let (ann, bob) = (village.add("ann", directory: folder.path("state")), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let code = try #require(bob.mesh.peers.verificationCode())
    #expect(try ann.mesh.verify(code: code) == bob.id)
    #expect(ann.mesh.peers.proofs[bob.id] == .asked && ann.mesh.peers.view(of: bob.id)?.marks.isVerified == false)
    #expect(village.wait(.seconds(10)) { ann.mesh.peers.proofs[bob.id] == .proven })
    #expect(ann.mesh.peers.view(of: bob.id)?.marks.isVerified == true)
    #expect(ann.mesh.node.engine?.verified == [bob.id])
    // Reading a code is one-sided: bob does not verify ann by it.
    #expect(bob.mesh.peers.view(of: ann.id)?.marks.isVerified == false)

    village.restart(ann, "ann", directory: folder.path("state"))
    #expect(village.wait { village.isAcquainted })
    #expect(ann.mesh.peers.view(of: bob.id)?.marks.isVerified == true && ann.mesh.node.engine?.verified == [bob.id])
    #expect(ann.mesh.peers.proofs[bob.id] == nil)
  }

  @Test("White space around a verification code, peer ID or nickname is ignored")
  @LoopActor
  func pasted() throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let code = try #require(bob.mesh.peers.verificationCode())
    for blank in ["\r\n", " ", "\t", "\u{FEFF}", "\u{A0}", "\u{2003}\n"] {
      let broken = "\(code.prefix(70))\(blank)\(code.dropFirst(70))"
      for text in [blank + code, code + blank, broken] { #expect(try ann.mesh.verify(code: text) == bob.id) }
      for name in ["bob", bob.id.description, "bob#" + bob.id.description.suffix(4)] {
        #expect(try ann.mesh.peers.peer(called: blank + name + blank) == bob.id, "\(name)")
      }
    }
    #expect(
      Self.refusal { () throws(DBusError) in try ann.mesh.verify(code: "x" + code) }?.is(.invalidArgs) == true)
  }

  @Test(
    "A relay and an absent, leaving or blocked peer cannot be verified, and the reason is given")
  @LoopActor
  func notProven() async throws {
    let village = Village()
    let ann = village.add("ann")
    let others = ["away", "leaves", "blocked"].map { village.add($0, at: 3) }
    let relay = village.add("relay", at: 4) { $0.role = .relay }
    // Peers known only through the node that leaves would become unknown.
    #expect(village.wait { village.isAcquainted && ann.mesh.node.engine?.neighbours.count == 4 })
    let codes = try (others + [relay]).map { try #require($0.mesh.peers.verificationCode()) }
    others[0].radio.power = false
    for code in codes { _ = try ann.mesh.verify(code: code) }
    try ann.mesh.block(others[2].id, true)
    others[1].mesh.stop()
    village.time.advance(by: .seconds(26))
    let standings = (others + [relay]).map { ann.mesh.peers.proofs[$0.id] }
    // A node that leaves may have answered before.
    #expect(standings[0] == .noAnswer && standings[2] == .blocked && standings[3] == .noAnswer)
    #expect(standings[1] == .gone)
    #expect(ann.mesh.node.engine?.verified == [])
    for house in others + [relay] { #expect(ann.mesh.peers.view(of: house.id)?.marks.isVerified != true) }
    #expect(
      Self.refusal { () throws(DBusError) in try ann.mesh.verify(code: codes[2]) }?.name.hasSuffix("InvalidArgs")
        == true)
    #expect(
      Self.refusal { () throws(DBusError) in try relay.mesh.verify(code: codes[0]) }?.name.hasSuffix(
        "NotSupported")
        == true)
  }

  @Test("A verification code that is old, changed, our own, or of an absent peer causes no challenge")
  @LoopActor
  func refused() async throws {
    let village = Village()
    let clock = VirtualWallClock(village.time)
    let (ann, bob) = (village.add("ann", clock: clock), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    // In their session bob proves its signing key.
    let number = try ann.mesh.messages.tell("bob", "hello")
    #expect(village.wait { ann.progress[number]?.last == .delivered })
    let code = try #require(bob.mesh.peers.verificationCode())
    var random = SeededRandom(seed: 9)
    let stranger = MeshEngine.Identity(randomFrom: &random)
    let bobsKey = try VerificationCode(reading: code).noiseKey
    func made(_ noiseKey: X25519.PublicKey, _ key: Ed25519.PrivateKey) throws -> String {
      try VerificationCode(
        noiseKey: noiseKey, key: key, nickname: "bob", seconds: clock.seconds, randomFrom: &random
      ).text
    }
    for (text, name) in [
      ("hello", "InvalidArgs"), (code.replacing("nick=bob", with: "nick=bop"), "InvalidArgs"),
      (try #require(ann.mesh.peers.verificationCode()), "InvalidArgs"),
      (try made(stranger.noiseKey.publicKey, stranger.signingKey), "NotFound"),
      (try made(bobsKey, stranger.signingKey), "InvalidArgs"),
    ] {
      let error = Self.refusal { () throws(DBusError) in try ann.mesh.verify(code: text) }
      #expect(error?.name.hasSuffix(name) == true, "\(text)")
    }
    clock.set(by: 301_000)
    let error = Self.refusal { () throws(DBusError) in try ann.mesh.verify(code: code) }
    #expect(error?.message.contains("older than five minutes") == true)
    village.time.advance(by: .seconds(30))
    #expect(ann.mesh.peers.proofs[bob.id] == nil && bob.mesh.node.engine?.counters.answeredChallenges == 0)
    #expect(ann.mesh.node.engine?.verified == [])
  }

  @Test("`Proof` stays empty if a peer that cannot be challenged is verified by its fingerprint")
  @LoopActor
  func notAsked() throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    try ann.mesh.block(bob.id, true)
    try ann.mesh.peers.verify(bob.id, true)
    #expect(ann.mesh.peers.proofs[bob.id] == nil)
    try ann.mesh.block(bob.id, false)
    try ann.mesh.peers.verify(bob.id, true)
    #expect(ann.mesh.peers.proofs[bob.id] == .asked)
    #expect(village.wait(.seconds(10)) { ann.mesh.peers.proofs[bob.id] == .proven })
  }

  @Test("Only a limited number of proof results, the latest ones, is stored")
  func board() {
    var board = ProofResults()
    for number in 0..<1000 as Range<UInt64> {
      board.note(.asked, of: PeerID(rawValue: number))
      board.note(.noAnswer, of: PeerID(rawValue: number))
    }
    board.note(.asked, of: PeerID(rawValue: 950))
    for number in 1000..<1060 as Range<UInt64> { board.note(.asked, of: PeerID(rawValue: number)) }
    #expect(board[PeerID(rawValue: 950)] == .asked && board[PeerID(rawValue: 951)] == nil)
    let known = (0..<1060 as Range<UInt64>).count { board[PeerID(rawValue: $0)] != nil }
    #expect(known == ProofResults.limit)
    board.forget(PeerID(rawValue: 950))
    #expect(board[PeerID(rawValue: 950)] == nil)
  }
}
