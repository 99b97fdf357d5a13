import Bytes
import Common
import Crypto
import Testing

@testable import ASN

@Suite("Limits of the ASN store and of answers")
struct QuotaTests {
  let keys = Vectors.shared.keys

  @Test("A blob of the maximum size is stored, and one byte more is refused with both numbers")
  func blob() throws {
    let world = try SocialWorld()
    world.engine.configuration.quota.blob = 1000
    let user = try world.user(1)
    let header = 115 + "note".utf8.count
    let fits = try world.exec(user.id, "blob", "note", input: [UInt8](repeating: 1, count: 1000 - header))
    let long = try world.exec(user.id, "blob", "note", input: [UInt8](repeating: 1, count: 1001 - header))
    #expect(fits.result == .success)
    #expect(long.result == .failure && long.text == "The blob has 1001 octets; the limit is 1000")
    #expect(world.peers[user.id]?.closed == nil)
  }

  @Test(
    "An answer above the size limit is refused with a sentence that names a smaller request",
    arguments: [
      (["cat", "n*"], "name fewer blobs, or use fetch"), (["ls", "n*"], ""), (["objdump", "n*"], ""),
    ] as [([String], String)])
  func answer(words: [String], advice: String) throws {
    let world = try SocialWorld()
    world.engine.configuration.answer = 600
    let user = try world.user(1)
    for number in 0..<10 {
      world.epoch += 1
      let name = "n\(number)" + String(repeating: "x", count: 80)
      #expect(try world.exec(user.id, "blob", name, input: [UInt8](repeating: 65, count: 100)).result == .success)
    }
    try world.client(user.id) { (client) throws(ClientError) in try client.exec(Command(words)).actions }
    let answer = try #require(world.peers[user.id]?.answers.last)
    #expect(answer.result == .failure)
    #expect(answer.text.hasPrefix("The answer has more than 600 octets; ") && answer.text.hasSuffix(advice))
    #expect(answer.text.count > "The answer has more than 600 octets; ".count)
  }

  @Test("The server refuses the requests of a user that exceeds its limit, and ends the user's session")
  func users() throws {
    let world = try SocialWorld()
    let first = try world.user(1)
    world.engine.configuration.quota.users = 2
    _ = try world.user(2)
    let refused = try world.exec(first.id, "newuser", "actual")
    #expect(refused.result == .failure && refused.text == "The server has reached its limit of 2 users")
  }

  @Test("An ASN user's number of names is limited, and a new version of a name does not count")
  func names() throws {
    let world = try SocialWorld()
    let user = try world.user(1)
    // asn/auth, asn/author and asn/user are there.
    world.engine.configuration.quota.namesPerUser = 20
    for number in 0..<17 { #expect(try world.exec(user.id, "blob", "n\(number)", input: [1]).result == .success) }
    let refused = try world.exec(user.id, "blob", "n17", input: [1])
    #expect(refused.result == .failure && refused.text.contains("has reached the limit of 20 names"))
    world.epoch += 1
    #expect(try world.exec(user.id, "blob", "n3", input: [2]).result == .success)
    #expect(try world.text(user.id, "cat", "n3") == "\u{2}")
  }

  @Test("A store that has reached its limit of bytes refuses blobs, and can be read")
  func store() throws {
    let world = try SocialWorld()
    let user = try world.user(1)
    #expect(try world.exec(user.id, "blob", "a", input: [1]).result == .success)
    world.engine.configuration.quota.store = 1000
    let refused = try world.exec(user.id, "blob", "b", input: [UInt8](repeating: 1, count: 800))
    #expect(refused.result == .failure && refused.text.contains("cannot be stored"))
    #expect(try world.exec(user.id, "cat", "a").data == [1])
  }
}
