import Bytes
import Common
import Crypto
import Testing

@testable import ASN

@Suite("The commands of ASN")
struct CommandTests {
  let keys = Vectors.shared.keys

  private func contents(_ blobs: [Blob]) -> [String] {
    blobs.map { ($0.header.name?.text ?? "?") + "=" + String(decoding: $0.content, as: UTF8.self) }
  }

  private func refused(
    _ world: SocialWorld, _ id: SessionID, _ arguments: String..., input: String? = nil
  ) throws -> Acknowledgement {
    let before = world.peers[id]?.answers.count ?? 0
    let command = Command(arguments, input: input.map { Array($0.utf8) })
    try world.client(id) { (client) throws(ClientError) in try client.exec(command).actions }
    let answers = world.peers[id]?.answers ?? []
    let answer = try #require(answers.dropFirst(before).last)
    #expect(answer.result != .success, "\(arguments) succeeded: \(answer.text)")
    return answer
  }

  // MARK: Blobs and references

  @Test(
    "A named blob is stored, listed, read and dumped; a newer one gets the name, the older keeps its sum")
  func named() throws {
    let world = try SocialWorld()
    let user = try world.user(1)
    let first = try world.text(user.id, "blob", "notes/a", input: "one")
    #expect(first.count == 128)
    world.epoch += 1
    let second = try world.text(user.id, "blob", "notes/a", input: "two")
    #expect(first != second)
    #expect(try world.text(user.id, "cat", "notes/a") == "two")
    #expect(
      try world.text(user.id, "cat", first) == "one" && world.text(user.id, "cat", String(first.prefix(8))) == "one")
    #expect(try world.text(user.id, "ls", "notes") == "notes/a\n")
    #expect(try world.text(user.id, "ls", first) == first + "\n")
    let dump = try world.text(user.id, "objdump", "notes/a")
    #expect(dump.hasPrefix("name: notes/a\nsum: \(second)\nowner: \(user.key.hex)\nauthor: \(user.key.hex)\ntime: "))
    #expect(dump.hasSuffix("epoch: \(world.epoch)\nsize: 125\nlen: 3\n"))
    #expect(try world.text(user.id, "ls") == "asn/auth\nasn/author\nasn/user\nnotes/a\n")
    // An older blob that comes late does not take the name.
    let late = Blob(
      owner: user.key, author: user.key, epoch: 5, name: try BlobName("notes/a"), content: [1],
      random: [UInt8](repeating: 0, count: 32))
    try world.client(user.id) { (client) throws(ClientError) in try client.send(late) }
    #expect(try world.text(user.id, "cat", "notes/a") == "two")
    #expect(try world.exec(user.id, "cat", late.sum.hex).data == [1])
  }

  @Test("A blob that a client made itself is stored verbatim, and storing it again changes nothing")
  func verbatim() throws {
    let world = try SocialWorld()
    let user = try world.user(1)
    let blob = Blob(
      owner: user.key, author: user.key, epoch: world.epoch, name: try BlobName("x"), content: [1, 2, 3],
      random: [UInt8](0..<32))
    for _ in 0..<3 { try world.client(user.id) { (client) throws(ClientError) in try client.send(blob) } }
    #expect(world.engine.store.blob(blob.sum) == blob && world.engine.store.usage().blobs == 4)
    #expect(world.server.counters.droppedBlobs == 0)
    let admin = try world.connect(user: keys.admin)
    #expect(try world.text(admin, "fetch", user.key.hex + "/x") == "")
    #expect(world.takeBlobs(admin) == [blob])
  }

  @Test("A reference may use wildcards, unique prefixes and epochs, and is refused if it is ambiguous")
  func references() throws {
    let world = try SocialWorld()
    let (alice, bob) = (try world.user(1), try world.user(2))
    for name in ["asn/hello", "asn/help", "asn/x/hello", "docs/1"] {
      _ = try world.text(alice.id, "blob", name, input: name)
    }
    #expect(try world.text(alice.id, "ls", "asn/hel*") == "asn/hello\nasn/help\n")
    #expect(try world.text(alice.id, "ls", "asn/hel?") == "asn/help\n")
    #expect(try refused(world, alice.id, "cat", "*/1").result == .failure)
    let (user, prefix) = (alice.key.hex, String(alice.key.hex.prefix(16)))
    #expect(try world.text(bob.id, "ls", user + "/docs") == prefix + "/docs/1\n")
    #expect(try world.text(bob.id, "cat", prefix.prefix(8) + "/docs/1") == "docs/1")
    let before = world.epoch
    world.epoch += 10
    _ = try world.text(alice.id, "blob", "docs/2", input: "2")
    #expect(try world.text(alice.id, "ls", "@\(before)") == "docs/2\n")
    #expect(try world.text(bob.id, "ls", "\(user)@\(before)") == prefix + "/docs/2\n")
    #expect(try world.text(alice.id, "ls", "docs@\(world.epoch)") == "")
    #expect(
      try world.text(alice.id, "ls", keys.server.encrPub.bytes.hexText + "/docs").split(separator: "\n").count == 2)
    // Messages are found by the beginning of their sum.
    let sum = try world.text(bob.id, "blob", user, input: "hi")
    #expect(try world.text(alice.id, "cat", "asn/messages/" + sum.prefix(10)) == "hi")
    _ = try world.text(alice.id, "blob", "d/abcd1", input: "1")
    _ = try world.text(alice.id, "blob", "d/abcd2", input: "2")
    #expect(try world.text(alice.id, "cat", "d/abcd1") == "1")
    #expect(try refused(world, alice.id, "cat", "d/abcd").text == "Ambiguous NAME d/abcd")
  }

  @Test("A reference with a prefix of two users' keys is refused as ambiguous")
  func ambiguousUsers() throws {
    let world = try SocialWorld()
    let admin = try world.connect(user: keys.admin)
    for last in [UInt8(1), 2] {
      let key = try UserKey([0xAB, 0xCD, 0xEF, 0x01] + [UInt8](repeating: last, count: 28))
      for (name, content) in [("asn/author", key.bytes), ("asn/user", Array("forum".utf8))] {
        let blob = Blob(
          owner: key, author: key, epoch: world.epoch, name: try BlobName(name), content: content,
          random: [UInt8](repeating: last, count: 32))
        try world.client(admin) { (client) throws(ClientError) in try client.send(blob) }
      }
    }
    #expect(try refused(world, admin, "ls", "abcdef01").text == "Ambiguous USER abcdef01")
    #expect(try refused(world, admin, "blob", "abcdef01/x", input: "").text == "Ambiguous USER abcdef01")
    #expect(try world.text(admin, "ls", "abcdef0101") == "abcdef0101010101/asn/author\nabcdef0101010101/asn/user\n")
  }

  @Test("A missing blob and one that the user may not read get the same answer")
  func secrets() throws {
    let world = try SocialWorld()
    let (alice, bob, eve) = (try world.user(1), try world.user(2), try world.user(3))
    let sum = try world.text(bob.id, "blob", alice.key.hex, input: "private")
    let name = alice.key.hex + "/asn/messages/" + sum.prefix(64)
    let nothing = try refused(world, eve.id, "cat", String(repeating: "0", count: 128))
    #expect(nothing.result == .failure && nothing.text == "No such USER, SUM or NAME")
    for command in ["cat", "ls", "objdump", "rm", "approve"] {
      #expect(try refused(world, eve.id, command, sum).data == nothing.data)
      #expect(try refused(world, eve.id, command, name).data == nothing.data)
      #expect(try refused(world, eve.id, command, String(sum.prefix(9))).data == nothing.data)
    }
    #expect(try world.text(alice.id, "cat", sum) == "private" && world.text(bob.id, "cat", sum) == "private")
    let directory = try world.text(eve.id, "ls", alice.key.hex)
    #expect(!directory.contains("messages"))
  }

  // MARK: Permissions

  @Test("Only owner, author, editors, administrator and service write a name, and nobody for another author")
  func writing() throws {
    let world = try SocialWorld()
    let (alice, bob) = (try world.user(1), try world.user(2))
    let forum = try world.newUser(alice.id, "forum")
    #expect(try refused(world, bob.id, "blob", forum.key.hex + "/rules", input: "mine").result == .denied)
    _ = try world.text(alice.id, "blob", forum.key.hex + "/rules", input: "ours")
    _ = try world.exec(alice.id, "blob", forum.key.hex + "/asn/editors", input: bob.key.bytes)
    _ = try world.text(bob.id, "blob", forum.key.hex + "/news", input: "by bob")
    let admin = try world.connect(user: keys.admin)
    _ = try world.text(admin, "blob", forum.key.hex + "/note", input: "by admin")
    func send(_ owner: UserKey, _ author: UserKey, _ name: String, by id: SessionID, ahead: UInt64 = 0) throws -> Bool {
      let blob = Blob(
        owner: owner, author: author, epoch: world.epoch + ahead, name: try BlobName(name), content: [1],
        random: world.random.bytes(32))
      let before = world.server.counters.droppedBlobs
      try world.client(id) { (client) throws(ClientError) in try client.send(blob) }
      #expect((world.server.counters.droppedBlobs == before) == (world.engine.store.blob(blob.sum) != nil))
      return world.engine.store.blob(blob.sum) != nil
    }
    #expect(try send(alice.key, alice.key, "x", by: alice.id))
    #expect(try !send(alice.key, bob.key, "x", by: alice.id) && !send(alice.key, alice.key, "x", by: bob.id))
    #expect(try !send(alice.key, alice.key, "", by: bob.id) && send(alice.key, bob.key, "", by: bob.id))
    #expect(try send(alice.key, bob.key, "y", by: admin))
    #expect(try !send(PermissionTests.key(5), bob.key, "", by: bob.id))
    #expect(try send(alice.key, alice.key, "z", by: alice.id, ahead: 299_000_000_000))
    #expect(try !send(alice.key, alice.key, "z", by: alice.id, ahead: 301_000_000_000))
    #expect(try !send(alice.key, alice.key, "asn/auth", by: alice.id))
    #expect(world.peers[bob.id]?.closed == nil)
  }

  @Test("Users may not write names that only the server links, nor marks of other users")
  func reserved() throws {
    let world = try SocialWorld()
    let (alice, bob) = (try world.user(1), try world.user(2))
    for name in [
      "asn/references/" + bob.key.hex, "asn/references/", "asn/messages/x", "asn/approvals/x", "asn/removals/x",
    ] {
      #expect(try refused(world, alice.id, "blob", name, input: "x").result == .denied, "\(name)")
    }
    let other = Mark(user: bob.key, position: .coordinates(latitude: 1, longitude: 2))
    #expect(try world.exec(alice.id, "blob", "asn/mark", input: other.bytes).result == .illFormatted)
    let own = Mark(user: alice.key, position: .coordinates(latitude: 1, longitude: 2))
    #expect(try world.exec(alice.id, "blob", "asn/mark", input: own.bytes).result == .success)
    #expect(world.engine.marks.count == 1)
  }

  @Test("The administrator may use fetch, clone and gc, mirrors may use fetch, and users none of them")
  func administration() throws {
    let world = try SocialWorld()
    let user = try world.user(1)
    for arguments in [["fetch", "asn/auth"], ["clone"], ["gc"]] {
      let before = world.peers[user.id]?.answers.count ?? 0
      try world.client(user.id) { (client) throws(ClientError) in try client.exec(Command(arguments)).actions }
      #expect(world.peers[user.id]?.answers.dropFirst(before).map(\.result) == [.denied])
    }
    let mirror = try world.connect(user: keys.server)
    #expect(try world.text(mirror, "fetch", user.key.hex) == "" && world.takeBlobs(mirror).count == 3)
    #expect(try refused(world, mirror, "clone").result == .denied)
    let admin = try world.connect(user: keys.admin)
    #expect(try world.text(admin, "clone") == "" && world.takeBlobs(admin).count == 3)
    #expect(try world.text(admin, "clone", "@\(world.epoch)") == "" && world.takeBlobs(admin) == [])
  }

  // MARK: Messages

  @Test("A message is linked for owner and author, and pushed once to each owner, subscriber and mirror")
  func message() throws {
    let world = try SocialWorld()
    let (alice, bob, carol) = (try world.user(1), try world.user(2), try world.user(3))
    let second = try world.connect(bob.key, bob.authentication)
    let mirror = try world.connect(user: keys.server)
    let forum = try world.newUser(alice.id, "forum")
    _ = try world.exec(alice.id, "blob", forum.key.hex + "/asn/subscribers", input: bob.key.bytes + bob.key.bytes)
    for id in [alice.id, bob.id, carol.id, second, mirror] { _ = world.takeBlobs(id) }
    let sum = try world.text(bob.id, "blob", forum.key.hex, input: "hello")
    #expect(world.takeBlobs(bob.id) == [] && contents(world.takeBlobs(second)) == ["=hello"])
    #expect(contents(world.takeBlobs(mirror)) == ["=hello"])
    #expect(world.takeBlobs(alice.id) == [] && world.takeBlobs(carol.id) == [])
    let link = "asn/messages/" + sum.prefix(64)
    #expect(try world.text(bob.id, "ls", "asn/messages") == link + "\n")
    #expect(
      try world.text(alice.id, "ls", forum.key.hex + "/asn/messages") == forum.key.hex.prefix(16) + "/" + link + "\n")
    _ = try world.text(carol.id, "blob", alice.key.hex, input: "direct")
    #expect(contents(world.takeBlobs(alice.id)) == ["=direct"])
  }

  @Test("A message to a moderated forum goes to moderators, and after an approval to owner and subscribers")
  func moderation() throws {
    let world = try SocialWorld()
    let (author, moderator, reader, writer) = (
      try world.user(1), try world.user(2), try world.user(3), try world.user(4)
    )
    let forum = try world.newUser(author.id, "forum")
    _ = try world.exec(author.id, "blob", forum.key.hex + "/asn/moderators", input: moderator.key.bytes)
    _ = try world.exec(
      author.id, "blob", forum.key.hex + "/asn/subscribers", input: reader.key.bytes + moderator.key.bytes)
    for id in [author.id, moderator.id, reader.id, writer.id] { _ = world.takeBlobs(id) }
    let sum = try world.text(writer.id, "blob", forum.key.hex, input: "please")
    #expect(contents(world.takeBlobs(moderator.id)) == ["=please"])
    #expect(world.takeBlobs(reader.id) == [])
    let link = "asn/messages/" + sum.prefix(64)
    #expect(try world.text(moderator.id, "ls", "asn/messages") == link + "\n")
    #expect(try refused(world, reader.id, "cat", sum).text == "No such USER, SUM or NAME")
    #expect(try refused(world, reader.id, "ls", forum.key.hex + "/asn/messages").result == .failure)
    // Those who read it without being moderators may not approve it.
    for id in [author.id, writer.id] { #expect(try refused(world, id, "approve", sum).result == .denied) }
    #expect(try refused(world, reader.id, "approve", sum).result == .failure)
    #expect(try refused(world, moderator.id, "approve", forum.key.hex + "/asn/author").result != .success)
    let approval = try world.text(moderator.id, "approve", String(sum.prefix(16)))
    #expect(contents(world.takeBlobs(reader.id)) == ["=please"])
    #expect(world.takeBlobs(moderator.id) == [] && world.takeBlobs(writer.id) == [])
    #expect(try world.text(reader.id, "cat", forum.key.hex + "/" + link) == "please")
    #expect(try world.text(moderator.id, "ls", "asn/approvals") == "asn/approvals/" + approval.prefix(64) + "\n")
    // A second approval approves nothing.
    _ = try world.text(moderator.id, "approve", sum)
    #expect(world.takeBlobs(reader.id) == [])
  }

  @Test("A bridge forwards its author's messages to subscribers that are logged in, and stores nothing")
  func bridge() throws {
    let world = try SocialWorld()
    let (author, reader, other) = (try world.user(1), try world.user(2), try world.user(3))
    let bridge = try world.newUser(author.id, "bridge")
    _ = try world.exec(author.id, "blob", bridge.key.hex + "/asn/subscribers", input: reader.key.bytes)
    let blobs = world.engine.store.usage().blobs
    for id in [author.id, reader.id, other.id] { _ = world.takeBlobs(id) }
    let sum = try world.text(author.id, "blob", bridge.key.hex + "/asn/bridge", input: "live")
    #expect(contents(world.takeBlobs(reader.id)) == ["asn/bridge=live"] && world.takeBlobs(other.id) == [])
    #expect(world.engine.store.usage().blobs == blobs)
    #expect(try refused(world, author.id, "cat", sum).result == .failure)
    #expect(try refused(world, other.id, "blob", bridge.key.hex + "/asn/bridge", input: "spam").result == .denied)
  }

  // MARK: Marks, vouchers, names of sessions

  @Test("A mark is pushed and can be read, is not stored, and ends with the session that set it")
  func marks() throws {
    let world = try SocialWorld()
    let (alice, bob) = (try world.user(1), try world.user(2))
    let place = try world.newUser(bob.id, "place")
    for id in [alice.id, bob.id] { _ = world.takeBlobs(id) }
    let blobs = world.engine.store.usage().blobs
    let sum = try world.text(alice.id, "mark", "37.5", "-122.25")
    let mark = Mark(user: alice.key, position: .coordinates(latitude: 37_500_000, longitude: -122_250_000))
    #expect(world.takeBlobs(bob.id).map { Array($0.content) } == [mark.bytes])
    #expect(try world.exec(bob.id, "cat", alice.key.hex + "/asn/mark").data == mark.bytes)
    #expect(try world.exec(bob.id, "cat", sum).data == mark.bytes)
    #expect(try world.exec(bob.id, "cat", keys.server.encrPub.bytes.hexText + "/asn/mark").data == mark.bytes)
    world.epoch += 1
    _ = try world.text(alice.id, "mark", "7a" + place.key.hex.prefix(12))
    let there = Mark(user: alice.key, position: .place(Array(place.key.bytes.prefix(7)), eta: 10))
    #expect(try world.exec(alice.id, "cat", "asn/mark").data == there.bytes)
    #expect(world.engine.store.usage().blobs == blobs && world.engine.marks.count == 1)
    _ = world.takeBlobs(bob.id)
    try world.client(alice.id) { (client) throws(ClientError) in try client.pause() }
    #expect(world.takeBlobs(bob.id).map { Array($0.content) } == [Mark(ending: alice.key).bytes])
    #expect(world.engine.marks.count == 0)
    // The mark of a place is a blob like any other.
    _ = try world.text(bob.id, "mark", "-u", place.key.hex, "1", "2")
    #expect(world.engine.store.usage().blobs == blobs + 1)
    #expect(try world.text(bob.id, "ls", place.key.hex + "/asn/mark").hasSuffix("/asn/mark\n"))
    #expect(try refused(world, bob.id, "mark", "-u", alice.key.hex, "1", "2").result == .denied)
  }

  @Test("An anonymous mark contains the session's ephemeral key and nothing that identifies the user")
  func anonymousMark() throws {
    let world = try SocialWorld()
    let (alice, bob) = (try world.user(1), try world.user(2))
    let ephemeral = try #require(world.peers[alice.id]?.client.ephemeralKey)
    _ = world.takeBlobs(bob.id)
    _ = try world.text(alice.id, "mark", "-u", ephemeral.hex, "1", "2")
    let blob = try #require(world.takeBlobs(bob.id).first)
    #expect(blob.header.owner == ephemeral && blob.header.author == ephemeral)
    try world.client(alice.id) { (client) throws(ClientError) in try client.quit() }
    #expect(world.takeBlobs(bob.id).map { Array($0.content) } == [Mark(ending: ephemeral).bytes])
  }

  @Test("With a list of subscribers, marks are pushed to and read by these subscribers only")
  func markSubscribers() throws {
    let world = try SocialWorld()
    let (alice, bob, eve) = (try world.user(1), try world.user(2), try world.user(3))
    _ = try world.exec(alice.id, "blob", "asn/subscribers", input: bob.key.bytes)
    for id in [bob.id, eve.id] { _ = world.takeBlobs(id) }
    let sum = try world.text(alice.id, "mark", "1", "2")
    #expect(world.takeBlobs(bob.id).count == 1 && world.takeBlobs(eve.id) == [])
    for reference in [sum, alice.key.hex + "/asn/mark"] {
      #expect(try refused(world, eve.id, "cat", reference).text == "No such USER, SUM or NAME")
      #expect(try world.exec(bob.id, "cat", reference).data.count == 16)
    }
    #expect(try refused(world, eve.id, "ls", keys.server.encrPub.bytes.hexText + "/asn/m*").result == .failure)
  }

  @Test("A voucher is linked for both users, and the same user's next voucher or denial replaces it")
  func vouchers() throws {
    let world = try SocialWorld()
    let (alice, bob) = (try world.user(1), try world.user(2))
    let signature = alice.authentication.sign(bob.key.bytes)
    _ = try world.text(alice.id, "vouch", bob.key.hex, Hex.encode(signature))
    #expect(try world.text(alice.id, "ls", "asn/vouchers") == "asn/vouchers/" + bob.key.hex + "\n")
    #expect(try world.text(bob.id, "ls", "asn/references") == "asn/references/" + alice.key.hex + "\n")
    #expect(try world.exec(bob.id, "cat", "asn/references/*").data == signature)
    world.epoch += 1
    _ = try world.text(alice.id, "vouch", bob.key.hex, String(repeating: "0", count: 128))
    #expect(
      try world.exec(bob.id, "cat", "asn/references/" + alice.key.hex.prefix(8)).data
        == [UInt8](repeating: 0, count: 64))
    #expect(try world.text(alice.id, "ls", "asn/vouchers").split(separator: "\n").count == 1)
  }

  @Test("The command newuser makes keys that can log in, for each kind that the document defines")
  func newUser() throws {
    let world = try SocialWorld()
    let alice = try world.user(1, dialect: .year2015)
    let answer = try world.exec(alice.id, "newuser", "-b")
    #expect(answer.data.count == 160)
    let key = try UserKey(answer.data[96..<128])
    let secret = try X25519.PrivateKey(copying: answer.data[0..<32])
    #expect(UserKey(secret.publicKey) == key)
    let made = try world.connect(key, Ed25519.PrivateKey(copyingSeed: answer.data[32..<64]))
    #expect(world.peers[made]?.client.state == .established)
    let admin = try world.connect(user: keys.admin)
    for kind in UserKind.allCases {
      let user = try world.newUser(admin, kind.rawValue)
      #expect(try world.text(admin, "cat", user.key.hex + "/asn/user") == kind.rawValue)
      #expect(try world.exec(admin, "cat", user.key.hex + "/asn/author").data == keys.admin.encrPub.bytes)
    }
  }

  @Test("In the dialect of 2015 users, sessions and references have the forms of 2015")
  func dialect2015() throws {
    let world = try SocialWorld()
    let (alice, bob) = (try world.user(1, dialect: .year2015), try world.user(2))
    let users = try world.text(alice.id, "users")
    #expect(users == [alice.key, bob.key].sorted().map { $0.hex + "\n" }.joined())
    _ = try world.text(alice.id, "iam", "alice")
    #expect(try world.text(alice.id, "who") == "alice\n\(bob.key.hex)\n")
    let sum = try world.text(alice.id, "blob", "x", "some", "words")
    #expect(sum.count == 12 && sum.hasSuffix("...\n"))
    #expect(try world.text(alice.id, "cat", "x") == "some words")
    #expect(try world.text(alice.id, "cat", "$" + sum.prefix(8)) == "some words")
    _ = try world.text(alice.id, "blob", "~" + bob.key.hex, input: "hi")
    #expect(try world.text(bob.id, "cat", "asn/messages") == "hi")
    #expect(
      try world.text(alice.id, "ls", "~" + bob.key.hex.prefix(8) + "/asn/auth")
        == "~\(bob.key.hex.prefix(16))/asn/auth\n")
    #expect(try world.text(alice.id, "ls", "$" + sum.prefix(8)).hasPrefix("$" + sum.prefix(8)))
    #expect(world.peers[alice.id]?.answers.last?.time == world.epoch)
  }

  @Test("The trace of a session lists only this session's PDUs, without their contents")
  func trace() throws {
    let world = try SocialWorld()
    let (alice, bob) = (try world.user(1), try world.user(2))
    _ = try world.text(alice.id, "trace")
    _ = try world.text(bob.id, "echo", "secret")
    _ = try world.exec(alice.id, "cat")
    #expect(
      try world.text(alice.id, "trace")
        == "> acknowledge \(world.peers[alice.id]?.answers.dropLast(2).last.map { 11 + $0.data.count } ?? 0) success\n"
        + "< exec 13\n> acknowledge 29 illFormatted\n< exec 15\n")
    _ = try world.text(alice.id, "trace", "filter", "1", "2")
    _ = try world.text(alice.id, "echo")
    #expect(try world.text(alice.id, "trace").split(separator: "\n").count == 2)
    _ = try world.text(alice.id, "trace", "resize", "2")
    _ = try world.text(alice.id, "trace", "unfilter", "1", "2")
    for _ in 0..<5 { _ = try world.text(alice.id, "echo") }
    #expect(try world.text(alice.id, "trace").split(separator: "\n").count == 2)
  }
}

extension [UInt8] {
  var hexText: String { Hex.encode(self) }
}
