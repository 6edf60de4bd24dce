//! As much of ELF as a compiled BPF object has: sections, symbols and relocations, 64 bits, little-endian.

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid BPF object: {0}")]
pub struct InvalidObject(pub(super) String);

const MACHINE_BPF: u16 = 247;
const SECTION_HEADER: usize = 64;
const SYMBOL: usize = 24;
const RELOCATION: usize = 16;

/// The kinds of sections.
const CODE_OR_DATA: u32 = 1;
const SYMBOLS: u32 = 2;
const NAMES: u32 = 3;
const RELOCATIONS: u32 = 9;

const EXECUTABLE: u64 = 4;
const FUNCTION: u8 = 2;

pub(super) struct File<'a> {
    pub(super) sections: Vec<Section<'a>>,
    pub(super) symbols: Vec<Symbol>,
}

pub(super) struct Section<'a> {
    pub(super) name: String,
    pub(super) data: &'a [u8],
    pub(super) is_code: bool,
    kind: u32,
    link: usize,
    /// The section that relocations belong to.
    info: usize,
}

pub(super) struct Symbol {
    pub(super) name: String,
    pub(super) section: usize,
    pub(super) value: usize,
    pub(super) size: usize,
    pub(super) is_function: bool,
}

pub(super) struct Relocation {
    pub(super) offset: usize,
    pub(super) symbol: usize,
}

impl<'a> File<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, InvalidObject> {
        let is_object = bytes.starts_with(b"\x7fELF\x02\x01") && u16_at(bytes, 18) == Some(MACHINE_BPF);
        if !is_object {
            return Err(InvalidObject("not an ELF file of BPF programs".to_owned()));
        }
        let sections = sections(bytes).ok_or_else(|| InvalidObject("its sections are cut off".to_owned()))?;
        let symbols = symbols(&sections).ok_or_else(|| InvalidObject("its symbols are cut off".to_owned()))?;
        Ok(Self { sections, symbols })
    }

    pub(super) fn symbols_of(&self, section: usize) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(move |symbol| symbol.section == section)
    }

    pub(super) fn relocations_of(&self, section: usize) -> impl Iterator<Item = Relocation> {
        let tables = self.sections.iter().filter(move |it| it.kind == RELOCATIONS && it.info == section);
        tables.flat_map(|table| table.data.chunks_exact(RELOCATION)).filter_map(read_relocation)
    }
}

fn sections(bytes: &[u8]) -> Option<Vec<Section<'_>>> {
    let start = usize_at(bytes, 40)?;
    let (count, names) = (u16_at(bytes, 60)?, u16_at(bytes, 62)?);
    let headers = bytes.get(start..start.checked_add(usize::from(count) * SECTION_HEADER)?)?;
    let headers: Vec<&[u8]> = headers.chunks_exact(SECTION_HEADER).collect();
    let names = data_of(bytes, headers.get(usize::from(names))?)?;
    headers.iter().map(|header| read_section(bytes, header, names)).collect()
}

fn read_section<'a>(bytes: &'a [u8], header: &[u8], names: &[u8]) -> Option<Section<'a>> {
    let kind = u32_at(header, 4)?;
    let flags = u64_at(header, 8)?;
    // Sections of other kinds may take no bytes of the file.
    let has_data = matches!(kind, CODE_OR_DATA | SYMBOLS | NAMES | RELOCATIONS);
    Some(Section {
        name: text_at(names, u32_at(header, 0)?)?,
        data: if has_data { data_of(bytes, header)? } else { &[] },
        is_code: kind == CODE_OR_DATA && flags & EXECUTABLE != 0,
        kind,
        link: u32_at(header, 40)?.try_into().ok()?,
        info: u32_at(header, 44)?.try_into().ok()?,
    })
}

fn data_of<'a>(bytes: &'a [u8], header: &[u8]) -> Option<&'a [u8]> {
    let (start, length) = (usize_at(header, 24)?, usize_at(header, 32)?);
    bytes.get(start..start.checked_add(length)?)
}

fn symbols(sections: &[Section<'_>]) -> Option<Vec<Symbol>> {
    let Some(table) = sections.iter().find(|section| section.kind == SYMBOLS) else { return Some(Vec::new()) };
    let names = sections.get(table.link)?.data;
    table.data.chunks_exact(SYMBOL).map(|bytes| read_symbol(bytes, names)).collect()
}

fn read_symbol(bytes: &[u8], names: &[u8]) -> Option<Symbol> {
    Some(Symbol {
        name: text_at(names, u32_at(bytes, 0)?)?,
        section: u16_at(bytes, 6)?.into(),
        value: usize_at(bytes, 8)?,
        size: usize_at(bytes, 16)?,
        is_function: bytes.get(4)? & 0xf == FUNCTION,
    })
}

fn read_relocation(bytes: &[u8]) -> Option<Relocation> {
    Some(Relocation { offset: usize_at(bytes, 0)?, symbol: u32_at(bytes, 12)?.try_into().ok()? })
}

/// The text from this offset to the next zero.
fn text_at(names: &[u8], offset: u32) -> Option<String> {
    let rest = names.get(usize::try_from(offset).ok()?..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn usize_at(bytes: &[u8], at: usize) -> Option<usize> {
    u64_at(bytes, at)?.try_into().ok()
}
