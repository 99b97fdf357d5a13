import Testing

@testable import Config

@Suite struct ConfigurationTests {
  private typealias Shop = Samples.Shop
  private typealias Sign = Samples.Sign

  @Test("A configuration key is set only in its own section, and an empty value sets its default")
  func keys() {
    let text = """
      [Shop]
      Name=door
      Kept=3
      Fruits=fig
      [Sign]
      Colour=green
      [Shop]
      Patience=2s
      Size=1K
      """
    let (read, complaints) = Samples.read(text)
    #expect(complaints == [])
    let shop = read[Shop.self]
    #expect(shop.name == "door" && shop.kept == 3 && shop.fruits == [.fig])
    #expect(shop.patience == .seconds(2) && shop.size == 1024)
    #expect(read[Sign.self].colour == .green && read[Sign.self].socket == nil)
    #expect(
      Samples.defaults.changes(to: read).map(\.name) == [
        "Shop.Name", "Shop.Kept", "Shop.Fruits", "Shop.Patience", "Shop.Size", "Sign.Colour",
      ])
    #expect(Samples.read(text + "\n[Shop]\nName=\n").configuration[Shop.self].name == "corner")
  }

  @Test(
    "After a reload with an unusable value or an unreadable file, the values in force stay"
  )
  func again() {
    let inForce = Samples.read("[Shop]\nKept=3\nName=door\n").configuration
    var read = Samples.defaults
    let complaints = read.apply(INI(Array("[Shop]\nKept=many\nSize=1K\n".utf8), file: "f"), inForce: inForce)
    #expect(complaints.map(\.sentence).first?.hasSuffix("Its value stays 3.") == true && complaints.count == 1)
    // A setting that was removed from the file has its default again.
    #expect(read[Shop.self].kept == 3 && read[Shop.self].size == 1024 && read[Shop.self].name == "corner")
    let missing = Samples.defaults.load(from: ConfigurationFiles(only: "/nowhere/shop.conf"), inForce: inForce)
    #expect(missing.configuration.changes(to: inForce).isEmpty && missing.complaints.count == 2)
    #expect(missing.complaints.last?.sentence.contains("keep their values") == true)
    let first = Samples.defaults.load(from: ConfigurationFiles(only: "/nowhere/shop.conf"))
    #expect(first.configuration.changes(to: Samples.defaults).map(\.name) == ["Shop.Throw"])
    #expect(first.configuration[Shop.self].throwAway == .seconds(7200))
    #expect(
      first.complaints.map(\.sentence).last
        == "In force until this file can be read, so that nothing is erased by mistake: Shop.Throw=2h.")
    #expect(first.complaints.count == 2)
  }

  @Test("A section that the configuration does not contain has its defaults")
  func missing() {
    var shop = Configuration(of: "a shop", [Shop.self])
    #expect(shop[Sign.self].colour == .red)
    let complaints = shop.apply(INI(Array("[Sign]\nColour=green\n".utf8), file: "f"))
    #expect(complaints.map(\.sentence) == ["There is no section [Sign]; it is ignored."])
    #expect(shop[Sign.self].colour == .red)
  }

  @Test(
    "An unusable configuration line is reported with file, line and the value in force",
    arguments: [
      (
        "[Shop]\nName=a name too long",
        "f:2: Name=a name too long is not a text of at most 14 bytes. Its value stays corner."
      ),
      (
        "[Shop]\nThrow=1min\nThrow=soon",
        "f:3: Throw=soon is not a time from 1s to 2h. Its value is 2h until this is corrected, so that nothing is "
          + "erased by mistake."
      ),
      ("[Shop]\nSize=8M\nSize=99G", "f:3: Size=99G is not a size from 1K to 64M. Its value stays 8M."),
      (
        "[Shop]\nFruits=pear, fig",
        "f:2: Fruits=pear, fig is invalid: pear and fig share a shelf. Its value stays apple pear."
      ),
      (
        "[Shop]\nFruits=plum", "f:2: Fruits=plum is not one or more of apple, pear and fig. Its value stays apple pear."
      ),
      (
        "[Sign]\nSocket=x",
        "f:2: Socket=x is not an absolute path of at most 107 bytes, or nothing. Its value stays empty."
      ),
      ("[Shop]\nPatiense=2s", "f:2: Section [Shop] has no key Patiense; it is ignored. Did you mean Patience?"),
      (
        "[Shop]\nName=\"door",
        "f:2: Name=\"door is invalid: a value that begins with a quotation mark must end with one, and contain no "
          + "other. Its value stays corner."
      ),
      (
        "[Shop]\nThrow=\"1min",
        "f:2: Throw=\"1min is invalid: a value that begins with a quotation mark must end with one, and contain no "
          + "other. Its value is 2h until this is corrected, so that nothing is erased by mistake."
      ),
      ("[Shop]\nStock=3", "f:2: Stock= is ignored: the key is now Kept=. Its value stays 16."),
      (
        "[Shop]\nDiscard=1min",
        "f:2: Discard= is ignored: the key is now Throw=. Its value is 2h until this is corrected, so that nothing is "
          + "erased by mistake."
      ),
      ("[Sign]\nStock=3", "f:2: Section [Sign] has no key Stock; it is ignored."),
      ("[Sign]\nHeight=2", "f:2: Section [Sign] has no key Height; it is ignored."),
      ("[shop]\nName=x", "f:1: There is no section [shop]; it is ignored. Did you mean [Shop]?"),
      ("[Printer]\nName=x", "f:1: There is no section [Printer]; it is ignored."),
    ])
  func complaints(text: String, expected: String) {
    #expect(Samples.read(text).complaints == [expected])
  }

  @Test("The earlier name of a key changes nothing in a file that also has the present name")
  func renamed() {
    for text in ["[Shop]\nDiscard=1min\nThrow=2min\n", "[Shop]\nThrow=2min\nDiscard=1min\n"] {
      let (read, complaints) = Samples.read(text)
      #expect(complaints.map { $0.dropFirst(5) } == ["Discard= is ignored: the key is now Throw=."])
      #expect(read[Shop.self].throwAway == .seconds(120))
    }
    let inForce = Samples.read("[Shop]\nThrow=2min\n").configuration
    var read = Samples.defaults
    let complaints = read.apply(INI(Array("[Shop]\nDiscard=1min\n".utf8), file: "f"), inForce: inForce)
    #expect(complaints.map(\.sentence) == ["Discard= is ignored: the key is now Throw=. Its value stays 2min."])
    #expect(read[Shop.self].throwAway == .seconds(120))
  }

  @Test("Quotation marks around a configuration value are removed for every type")
  func quoted() {
    let (read, complaints) = Samples.read(
      "[Shop]\nName=\"Gate 1\"\nKept='3'\nFruits=\"fig apple\"\n[Sign]\nSocket=\"\"\n")
    #expect(complaints == [])
    let shop = read[Shop.self]
    #expect(shop.name == "Gate 1" && shop.kept == 3 && shop.fruits == [.fig, .apple])
  }

  @Test("After a reload a changed key is reported as in force only if it needs no restart")
  func report() {
    func report(_ text: String) -> String {
      SettingChange.report(Samples.defaults.changes(to: Samples.read(text).configuration))
    }
    #expect(report("") == "No setting changed.")
    #expect(report("[Shop]\nKept=3\nSize=1K\n") == "In force now: Shop.Kept, Shop.Size.")
    #expect(report("[Shop]\nName=door\n") == "Needs a restart: Shop.Name.")
    #expect(
      report("[Shop]\nName=door\nKept=3\n") == "In force now: Shop.Kept. Needs a restart: Shop.Name.")
  }

  @Test("Configuration sections and keys that begin with X- are ignored")
  func foreign() {
    #expect(Samples.read("[X-Shop]\nk=v\n[Sign]\nX-Note=v\n").complaints == [])
  }

  @Test("A reload applies the keys that can change at run time, and names those that need a restart")
  func reload() {
    let old = Samples.defaults
    let new = Samples.read("[Shop]\nName=door\nKept=3\n[Sign]\nSocket=/run/sign\n").configuration
    #expect(
      old.changes(to: new) == [
        SettingChange(name: "Shop.Name", old: "corner", new: "door", needsRestart: true, isFree: true),
        SettingChange(name: "Shop.Kept", old: "16", new: "3", needsRestart: false),
        SettingChange(name: "Sign.Socket", old: "", new: "/run/sign", needsRestart: true, isFree: true),
      ])
    let inForce = new.keepingRestartSettings(of: old)
    #expect(inForce[Shop.self].name == "corner" && inForce[Shop.self].kept == 3)
    #expect(inForce[Sign.self].socket == nil)
    // The socket in force stays where the other configuration has none.
    #expect(old.keepingRestartSettings(of: new)[Sign.self].socket == "/run/sign")
  }

  @Test("The default configuration file shows the defaults, and stays valid with every key enabled")
  func defaultFile() {
    let text = Samples.read("[Shop]\nName=door\n").configuration.defaultFile
    #expect(text == Samples.defaults.defaultFile)
    #expect(text.hasPrefix("# Settings of a shop. "))
    #expect(text.contains("\n[Shop]\n\n# What is written over the door.\n# Takes a text of at most 14 bytes. Needs a"))
    #expect(text.contains("\n#Name=corner\n") && text.contains("\n#Socket=\n"))
    #expect(INI(Array(text.utf8), file: "f").entries == [])
    let switchedOn = text.split(separator: "\n", omittingEmptySubsequences: false)
      .map { $0.hasPrefix("#") && !$0.hasPrefix("# ") ? $0.dropFirst() : $0 }.joined(separator: "\n")
    #expect(INI(Array(switchedOn.utf8), file: "f").entries.count == 8)
    #expect(Samples.read(switchedOn).complaints == [])
    #expect(Samples.read(switchedOn).configuration.isSame(as: Samples.defaults))
  }
}
