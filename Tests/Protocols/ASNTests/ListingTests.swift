import Bytes
import Common
import Testing

@testable import ASN

@Suite("ASN lists that are read in portions")
struct ListingTests {
  let keys = Vectors.shared.keys

  /// All portions of a list.
  private func pages(
    _ reference: String, _ world: SocialWorld, by login: Login, limit: Int
  ) throws -> [[String]] {
    var pages: [[String]] = []
    var last = ""
    repeat {
      let page = try world.engine.names(reference, by: login, after: last, limit: limit)
      pages.append(page)
      last = page.last ?? ""
    } while !last.isEmpty && pages.count < 200
    return pages
  }

  @Test(
    "The portions of a list together contain each name once, sorted by bytes",
    arguments: [1, 7, 1000], ["", "dir/", "dir/*", "n*", "USER", "USER/asn", "USER/dir/n1*", "SERVICE", "SERVICE/dir"])
  func portions(limit: Int, reference: String) throws {
    let world = try SocialWorld()
    let (alice, bob) = (try world.user(1), try world.user(2))
    for user in [alice, bob] {
      for number in 0..<15 {
        _ = try world.text(user.id, "blob", "dir/n\(number)", input: "x")
        _ = try world.text(user.id, "blob", "n\(number)\u{E9}", input: "x")
      }
    }
    let text = reference.replacing("USER", with: bob.key.hex).replacing("SERVICE", with: try keys.server.user.hex)
    let login = Login(alice.key)
    let whole = try world.text(alice.id, "ls", text.isEmpty ? alice.key.hex : text)
    let expected = Set(whole.split(separator: "\n").map(String.init)).sorted {
      $0.utf8.lexicographicallyPrecedes($1.utf8)
    }
    #expect(expected.count > 1)
    let found = try pages(text, world, by: login, limit: limit)
    #expect(found.flatMap { $0 } == expected)
    #expect(found.dropLast(2).allSatisfy { $0.count == limit })
  }

  @Test("The portion after the last name is empty, and a reference without a match is refused")
  func ends() throws {
    let world = try SocialWorld()
    let alice = try world.user(1)
    _ = try world.text(alice.id, "blob", "dir/a", input: "x")
    let login = Login(alice.key)
    #expect(try world.engine.names("dir/*", by: login, after: "dir/a", limit: 9) == [])
    #expect(try world.engine.names("dir/*", by: login, after: "zz", limit: 9) == [])
    #expect(throws: Refusal.self) { try world.engine.names("none", by: login, after: "", limit: 9) }
    #expect(throws: Refusal.self) { try world.engine.names("none/*", by: login, after: "", limit: 9) }
    #expect(throws: Refusal.self) { try world.engine.names("..", by: login, after: "", limit: 9) }
  }

  @Test("Reading a portion of a directory does not read the directory beyond the end of the portion")
  func effort() throws {
    let world = try SocialWorld()
    let alice = try world.user(1)
    for number in 100..<900 { try insert("n\(number)", alice.key, world) }
    let login = Login(alice.key)
    func effort(after: String) throws -> Int {
      let budget = LookupBudget(login)
      var query = world.engine.query(login, .seed, budget)
      query.page = ListPage(after: after, limit: 10)
      _ = try query.resolver.matches(.own, allowsNone: true)
      #expect(query.page?.lines.count == 10)
      return budget.spent
    }
    // A portion of the store has 256 names.
    #expect(try effort(after: "") == 256)
    #expect(try effort(after: "n300") == 256)
  }

  private func insert(_ name: String, _ owner: UserKey, _ world: SocialWorld) throws {
    let blob = Blob(
      owner: owner, author: owner, epoch: 1, name: try BlobName(name), content: [],
      random: [UInt8](repeating: 0, count: 32))
    try world.engine.store.apply([.insert(blob), .link(Link(owner: owner, name: name, sum: blob.sum, epoch: 1))])
  }

  @Test("The contents of blobs are read up to a size limit given by the caller")
  func contents() throws {
    let world = try SocialWorld()
    world.engine.configuration.answer = 600
    let alice = try world.user(1)
    #expect(try world.exec(alice.id, "blob", "big", input: [UInt8](repeating: 7, count: 2000)).result == .success)
    let login = Login(alice.key)
    #expect(try world.exec(alice.id, "cat", "big").result == .failure)
    #expect(try world.engine.contents("big", by: login, limit: 2000).count == 2000)
    #expect(throws: Refusal.self) { try world.engine.contents("big", by: login, limit: 1999) }
  }
}
