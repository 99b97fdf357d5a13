import Bytes
import Common
import Crypto
import Testing

@testable import ASN

@Suite("ASN users that request more than they may")
struct AbuseTests {
  let keys = Vectors.shared.keys

  // MARK: New users

  @Test("A user cannot turn the key of a forum, bridge, place or removed user into a key that may log in")
  func kinds() throws {
    let world = try SocialWorld(newUsers: .admin)
    let admin = try world.connect(user: keys.admin)
    let made = try world.newUser(admin, "actual")
    let alice = try world.connect(made.key, made.authentication)
    for kind in ["forum", "bridge", "place"] {
      let other = try world.newUser(alice, kind)
      let name = other.key.hex + "/asn/user"
      world.epoch += 1
      #expect(try world.exec(alice, "blob", name, input: Array("actual".utf8)).result == .denied)
      let id = try world.connect(other.key, other.authentication, address: kind)
      #expect(world.peers[id]?.answers.map(\.result) == [.denied])
      #expect(try world.exec(alice, "blob", name, input: Array("forum".utf8)).result == .success)
    }
    // The administrator may do this.
    let forum = try world.newUser(alice, "forum")
    world.epoch += 1
    let raised = try world.exec(admin, "blob", forum.key.hex + "/asn/user", input: Array("actual".utf8))
    #expect(raised.result == .success)
    _ = try world.text(admin, "rm", made.key.hex + "/asn/user")
    #expect(try world.exec(alice, "blob", "asn/user", input: Array("actual".utf8)).result == .denied)
    let again = try world.connect(made.key, made.authentication, address: "again")
    #expect(world.peers[again]?.answers.map(\.result) == [.denied])
  }

  @Test("First logins from one address create at most 20 users a minute, and do not affect other addresses")
  func newUsers() throws {
    let world = try SocialWorld { $0.sessionsPerAddress = 100 }
    for number in 0..<20 { _ = try world.user(UInt64(number)) }
    let refused = try world.connect(user: keys.user, isNew: true)
    #expect(world.peers[refused]?.answers.map(\.result) == [.denied])
    #expect(try world.engine.store.link(keys.user.user, "asn/user") == nil)
    _ = try world.user(100, address: "b")
    // Users that exist log in.
    let known = try world.connect(user: keys.admin)
    #expect(world.server.state(of: known) == .established)
    world.wait(.seconds(5))
    _ = try world.user(101)
  }

  // MARK: Moderators, vouchers, removals

  @Test("A message to a forum is linked only for those keys in its list of moderators that are users")
  func moderators() throws {
    let world = try SocialWorld()
    let (alice, bob) = (try world.user(1), try world.user(2))
    let forum = try world.newUser(alice.id, "forum")
    let unknown = try (0..<60).map { try UserKey([UInt8](repeating: UInt8($0), count: 32)) }
    let list = bob.key.bytes + unknown.flatMap(\.bytes)
    #expect(try world.exec(alice.id, "blob", forum.key.hex + "/asn/moderators", input: list).result == .success)
    let sum = try Sum(Hex.decode(try world.text(alice.id, "blob", forum.key.hex, input: "x")))
    #expect(Set(world.engine.store.links(to: sum).map(\.owner)) == [alice.key, bob.key])
  }

  @Test("A user cannot use the signature of its login as a voucher for itself")
  func voucher() throws {
    let world = try SocialWorld()
    let alice = try world.user(1)
    let signature = alice.authentication.sign(alice.key.bytes)
    let answer = try world.exec(alice.id, "vouch", alice.key.hex, Hex.encode(signature))
    #expect(answer.result == .illFormatted)
    let blob = Blob(
      owner: alice.key, author: alice.key, epoch: world.epoch, name: .vouchers, content: signature,
      random: [UInt8](repeating: 0, count: 32))
    try world.client(alice.id) { (client) throws(ClientError) in try client.send(blob) }
    #expect(world.engine.store.blob(blob.sum) == nil)
  }

  @Test("A user can remove blobs even if its directory or the store is full")
  func removals() throws {
    let world = try SocialWorld()
    let user = try world.user(1)
    for number in 0..<17 { _ = try world.text(user.id, "blob", "n\(number)", input: "x") }
    world.engine.configuration.quota.namesPerUser = 20
    world.engine.configuration.quota.store = 1000
    #expect(try world.exec(user.id, "blob", "n17", input: [1]).result == .failure)
    _ = try world.text(user.id, "rm", "n0")
    #expect(try world.exec(user.id, "cat", "n0").result == .failure)
  }

  // MARK: Work

  @Test("The names that one user's request compares with its references are limited; an administrator's are not")
  func lookups() throws {
    let world = try SocialWorld()
    let user = try world.user(1)
    for number in 0..<60 { _ = try world.text(user.id, "blob", "n\(number)", input: "x") }
    func list(_ login: Login, _ references: [String]) throws -> StoreOutcome {
      let query = Query(
        view: StoreView(world.engine.store), marks: CurrentMarks(), login: login, dialect: .seed,
        service: try keys.server.user, answer: 1 << 20, budget: LookupBudget(login, names: 100))
      return try query.list(references)
    }
    // No name matches, but each is looked at.
    #expect(try list(Login(user.key), ["n*"]).result == .success)
    #expect(throws: Refusal.self) { try list(Login(user.key), ["n*", "n1*"]) }
    #expect(throws: Refusal.self) { try list(Login(user.key), ["n*", "m*"]) }
    let all = user.key.hex + "/n*"
    #expect(try list(Login(try keys.admin.user, .admin), [all, all, all]).result == .success)
  }
}
